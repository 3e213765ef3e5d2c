"""Why kernels are slower than native code: what the page says about the five slowest. By the name of the case."""

from __future__ import annotations

REASONS = {
    "look_back": "A thread waits until another block has published its sum. Lanes of a group run in step, so such a kernel is not "
    "vectorized: every thread has a stack of its own, and each barrier switches through all of them. The native side is two plain loops.",
    "warp_matmul": "Matrix operations are routines that see the operands of all 32 lanes in memory; the kernel around them runs on "
    "stacks per thread, and half of the time goes into moving fragments and into threads that meet.",
    "radix": "Its last kernel counts equal digits of all threads before it: every thread has another trip count, so 256 steps run "
    "for each group with masks. The native side needs one counter per digit.",
    "life": "Bytes computed as 32-bit numbers use a quarter of each register; and `a || (b && cell[i])` is a branch on data, with a load "
    "behind it, that nearly every group takes apart.",
    "bitonic": "Addresses `2 t - (t & (stride - 1))` are gathers and scatters for strides below the width, and `if (a > b)` is a branch on "
    "data around two stores. The native side is `std::sort`, which compares n log n times instead of n log² n.",
    "hash_insert": "Every lane takes another number of steps, each an atomic on an address of its own: lane after lane, under masks.",
    "spmv_warp": "`x[column[k]]` is a gather, which NEON has no instruction for, and the sum of a warp's lanes is five shuffles.",
    "spmv_thread": "Three loads per step are gathers, which NEON has no instruction for, and rows of different lengths run under masks.",
    "fft": "Twiddle factors and strides differ per stage: addresses are gathers and scatters in most of them.",
    "compact": "Places come from a ballot per warp: W is 32, and the stores are scatters under masks.",
    "layer_norm": "Two block reductions with a barrier per step, where the native side keeps the sums in registers.",
    "dot": "The sum over a block goes through shared memory with a barrier per step; the native side keeps it in registers.",
    "grayscale": "Bytes computed as 32-bit numbers use a quarter of each register.",
}
