# SPDX-License-Identifier: Apache-2.0
"""Reasons why kernels are slower than native code, for those that miss their goal; by case name."""

from __future__ import annotations

REASONS = {
    "look_back": "A thread waits until another block has published its sum. Lanes of a group run in step, so such a kernel is not "
    "vectorized: every thread has a stack of its own, and each barrier switches through all of them. The native side is two plain loops.",
    "warp_matmul": "Tensor cores keep other bits of a sum than a float has. For four products, native code converts halves to floats once and "
    "has one fused multiply-add; the same bits take two multiplications, a conversion to integers, which truncates, and an addition, and the "
    "units of the sums before and their truncation after them cost half as much again. The rest goes through memory: a product is a routine, "
    "which gets the fragments of all threads there.",
    "radix": "Its last kernel counts equal digits of all threads before it: every thread has another trip count, so 256 steps run "
    "for each group with masks. The native side needs one counter per digit.",
    "life": "Measured before sums of bytes were computed with 16 bits: each of the nine was widened to 32 bits, a quarter of a register.",
    "bitonic": "Addresses `2 t - (t & (stride - 1))` are gathers and scatters for strides below the width, and `if (a > b)` is a branch on "
    "data around two stores. The native side is `std::sort`, which compares n log n times instead of n log² n.",
    "hash_insert": "On x86-64 measured before the threads of a block ran in one loop: each was entered by a call of the scheduler, and fewer of the cache "
    "misses of the compare-and-swap overlapped than in the native loop.",
    "spmv_warp": "Measured before the loop over a row, which NVRTC unrolls by four, ran as one loop again: lanes with another remainder were at other "
    "places, and three loads per step were gathers under masks.",
    "spmv_thread": "Three loads per step are gathers, which NEON has no instruction for, and rows of different lengths run under masks.",
    "fft": "Twiddle factors and strides differ per stage: of a stage whose stride is below the width, stores are scatters.",
    "compact": "Places come from a ballot per warp: W is 32, and the stores are scatters under masks.",
    "layer_norm": "Two block reductions with a barrier per step, where the native side keeps the sums in registers.",
    "dot": "The sum over a block uses shared memory with a barrier per step; the native side keeps it in registers.",
    "grayscale": "Measured before saturating conversions were made for whole vectors: LLVM converts lane by lane on x86-64, with four tests each.",
    "reduce": "On x86-64 measured before each step of the tree was code of its own, and before stores to shared memory that nothing reads were dropped. The native "
    "side adds into registers.",
    "histogram": "A grid-stride loop reads 16 bytes of a cache line per group and turn, 64 KiB apart: every line is fetched four times, though prefetched.",
    "row_sums": "Measured before the loop over a row, which NVRTC unrolls by four, ran as one loop again: the loads of the unrolled loop were gathers.",
    "matvec_q4": "Measured before the loop over a row, which NVRTC unrolls by four, ran as one loop again; the two scales of a group are gathered.",
    "transpose_naive": "Scatters of sixteen numbers, 8 KiB apart: all lines fall into one set of the first-level cache. The native side writes contiguously.",
    "box_blur": "On x86-64 measured before a tile was loaded in contiguous pieces: its loads were gathers, with a division and four tests for every lane. The "
    "native side has no tile: nine contiguous loads.",
    "median": "A minimum that treats NaNs and zeros as a GPU does is five or six instructions on x86-64 (nine when this was measured), where the native side has one.",
    "embed": "Measured before a group divided once: `i / n` and `i % n` were sixteen scalar divisions, and the addresses that follow from them gathers.",
    "split_heads": "Measured before a group divided once: three divisions and remainders were sixteen scalar ones each, and the store a scatter.",
    "rope": "Measured before a group divided once: the remainder was sixteen scalar divisions, and the load that follows from it a gather.",
    "binomial": "Measured before the test of the index was repeated after the barrier: every group stored and loaded a mask beside its value, twice per step of the tree.",
    "search": "Most lanes of a group do nothing in a level, so the loop over edges runs under masks, with three gathers and a scatter that AVX2 does lane by lane.",
    "shared_scan": "Measured before a branch on the index proved that the index of the other number does not wrap: groups that a step begins in ran under masks from then on.",
    "mandelbrot": "Measured before AVX2 code had two registers per value: one left the pipeline waiting for results, a chain of three dependent operations.",
    "matmul": "Measured before AVX2 code had two registers per value: a column of the tile was loaded again for every eight results.",
}
