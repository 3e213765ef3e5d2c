# SPDX-License-Identifier: Apache-2.0
"""Reasons why kernels are slower than native code, for the five slowest on the page; by case name."""

from __future__ import annotations

REASONS = {
    "look_back": "A thread waits until another block has published its sum. Lanes of a group run in step, so such a kernel is not "
    "vectorized: every thread has a stack of its own, and each barrier switches through all of them. The native side is two plain loops.",
    "warp_matmul": "Two fifths of the time go into adding as the tensor cores of a GPU do, which keep other bits of a sum than a float has, a "
    "quarter into threads that meet, since around the products every thread has a stack of its own, and a third into fragments: threads load "
    "theirs, and they are brought together and apart.",
    "radix": "Its last kernel counts equal digits of all threads before it: every thread has another trip count, so 256 steps run "
    "for each group with masks. The native side needs one counter per digit.",
    "life": "Bytes computed as 32-bit numbers use a quarter of each register, and each of the nine is loaded and widened for itself.",
    "bitonic": "Addresses `2 t - (t & (stride - 1))` are gathers and scatters for strides below the width, and `if (a > b)` is a branch on "
    "data around two stores. The native side is `std::sort`, which compares n log n times instead of n log² n.",
    "hash_insert": "A loop that ends when another thread has not come first may wait for it, so it runs thread by thread, each with the "
    "care for one that might give way; what is left is compare-and-swaps that miss the caches, of which the native loop has more under way at a time.",
    "spmv_warp": "NVRTC unrolls the loop over a row by four and does the remainder first: lanes with another remainder are at other places "
    "from then on, so that three loads per step are gathers under masks; and the sum of a warp's lanes is five shuffles.",
    "spmv_thread": "Three loads per step are gathers, which NEON has no instruction for, and rows of different lengths run under masks.",
    "fft": "Twiddle factors and strides differ per stage: addresses are gathers and scatters in most of them.",
    "compact": "Places come from a ballot per warp: W is 32, and the stores are scatters under masks.",
    "layer_norm": "Two block reductions with a barrier per step, where the native side keeps the sums in registers.",
    "dot": "The sum over a block uses shared memory with a barrier per step; the native side keeps it in registers.",
    "grayscale": "Bytes computed as 32-bit numbers use a quarter of each register.",
}
