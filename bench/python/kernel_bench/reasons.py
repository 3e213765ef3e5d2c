# SPDX-License-Identifier: Apache-2.0
"""Reasons why kernels are slower than native code, for those that miss their goal; by case name."""

from __future__ import annotations

REASONS = {
    "look_back": "A thread waits until another block has published its sum. Lanes of a group run in step, so such a kernel is not vectorized: every thread has a stack of its own, and each barrier switches through all of them. The native side is two plain loops.",
    "warp_matmul": "Tensor cores keep other bits of a sum than a float has. For four products, native code converts halves to floats once and has one fused multiply-add; the same bits take two multiplications, a conversion to integers, which truncates, and an addition, and the units of the sums before and their truncation after them cost half as much again. The rest goes through memory: a product is a routine, which gets the fragments of all threads there.",
    "radix": "Its last kernel counts equal digits of all threads before it: every thread has another trip count, so 256 steps run for each group with masks. The native side needs one counter per digit.",
    "bitonic": "Addresses `2 t - (t & (stride - 1))` are gathers and scatters for strides below the width, and `if (a > b)` is a branch on data around two stores. The native side is `std::sort`, which compares n log n times instead of n log² n.",
    "life": "A group has 16 threads, so that an access is 16 bytes, and the sum of eight bytes is computed in 16 bits. The native side adds 32 bytes at a time, in 8 bits.",
    "spmv_thread": "Three loads per step, for which NEON has no instruction and the gathers of this processor are slower than single loads: for each lane an address is extracted from a register and an element inserted into one, five instructions of which three need the same port. Rows of different lengths run under masks. The native side walks along a row.",
    "shared_scan": "Four of eight steps read 64 bytes that begin in the middle of 64 that have just been written: such a load crosses a cache line and waits until both stores are in the cache. With AVX2 three steps do, and half of their loads cross no line.",
    "fft": "Twiddle factors and strides differ per stage: of a stage whose stride is below the width, stores are scatters.",
    "compact": "Places come from a ballot per warp: W is 32, and the stores are scatters under masks.",
    "layer_norm": "Two block reductions with a barrier per step, where the native side keeps the sums in registers.",
    "dot": "The sum over a block uses shared memory with a barrier per step; the native side keeps it in registers.",
    "histogram": "A grid-stride loop reads 32 bytes of a cache line per group and turn, 64 KiB apart: every line is fetched twice, though prefetched.",
    "transpose_naive": "Eight numbers at a time are written 8 KiB apart, and lines of the input are read twice. The native side writes contiguously.",
    "search": "Most lanes of a group do nothing in a level, so the loop over edges runs under masks, with three gathers and a scatter, which AVX2 does lane by lane.",
    "matmul": "Tiles go through shared memory: with AVX-512, copying one takes 510 instructions of the 830 between two turns of the loop, which have 256 products; the native side reads both matrices where they are. And a block computes 16 x 16 results, so every 16 rows read all of b from the third-level cache again, 17 lines per 256 products by simulating caches; the native side computes 64 rows at a time, and reads 5.",
    "reduce": "Between the loads of two blocks is a tree of additions, each with the NaN of a GPU, and the end of a block: fewer loads are in flight than in the native loop, which is limited by memory. Measured before the next lines were prefetched meanwhile.",
    "median": "A minimum and a maximum of two numbers that treat NaNs and zeros as a GPU does take ten instructions on x86-64 and, where there are many of the same numbers, five on integer keys; the native side has two, if its compiler vectorizes the loop.",
    "box_blur": "A block of 16 x 16 threads reads 18 rows of the image and writes 16, each in another page, which is probably more than the prefetcher of these processors follows (32 streams); a third of the time is spent at the loads that fill the tile. With 512 x 512 pixels, which fit into the second-level cache, the ratio is 1.6 to 2.5. For a group of a tile row there are about 40 scalar instructions (a division by 18, clamps of the row, and where the row ends), two masked loads and a store. The native side reads three rows where they are.",
}
