# SPDX-License-Identifier: Apache-2.0
"""Kernels with the classic mistakes of parallel programs, and the same kernels corrected."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """`source` has FIX(x) where the corrected kernel has x and the wrong one has nothing."""

    name: str
    source: str
    grid: int
    block: int
    expected: list[int]  # all words of the result, which begins as zeros
    cooperative: tuple[bool, bool] = (False, False)  # how it is launched: the wrong one, the corrected one

    def text(self, fixed: bool) -> str:
        return f"#define FIX(x) {'x' if fixed else ''}\n" + self.source


CASES = [
    Case("missing_barrier", r"""
extern "C" __global__ void k(int* out) {
    __shared__ int s[64];
    s[threadIdx.x] = threadIdx.x;
    FIX(__syncthreads();)
    out[threadIdx.x] = s[63 - threadIdx.x];
}""", 1, 64, [63 - i for i in range(64)]),
    Case("missing_second_barrier", r"""
extern "C" __global__ void k(int* out) {
    __shared__ int s[64];
    int sum = 0;
    for (int round = 0; round < 3; ++round) {
        s[threadIdx.x] = threadIdx.x + round;
        __syncthreads();
        sum += s[63 - threadIdx.x];
        FIX(__syncthreads();)
    }
    out[threadIdx.x] = sum;
}""", 1, 64, [3 * (63 - i) + 3 for i in range(64)]),
    Case("missing_fence", r"""
__device__ int data, flag;
extern "C" __global__ void k(int* out) {
    if (blockIdx.x == 1) {
        data = 42;
        FIX(__threadfence();)
        *(volatile int*)&flag = 1;
    } else {
        while (*(volatile int*)&flag == 0) __nanosleep(20);
        __threadfence();
        out[0] = *(volatile int*)&data;
        data = 0;
        *(volatile int*)&flag = 0;
    }
}""", 2, 1, [42], (True, True)),
    Case("missing_fence_of_the_reader", r"""
__device__ int data, flag;
extern "C" __global__ void k(int* out) {
    if (blockIdx.x == 1) {
        data = 42;
        __threadfence();
        *(volatile int*)&flag = 1;
    } else {
        while (*(volatile int*)&flag == 0) __nanosleep(20);
        FIX(__threadfence();)
        out[0] = *(volatile int*)&data;
        data = 0;
        *(volatile int*)&flag = 0;
    }
}""", 2, 1, [42], (True, True)),
    Case("relaxed_load_of_the_flag", r"""
__device__ int data[4], flag;
__device__ int load_flag() {
    int value;
#if FIX(1) + 0
    asm volatile("ld.acquire.gpu.s32 %0, [%1];" : "=r"(value) : "l"(&flag) : "memory");
#else
    asm volatile("ld.relaxed.gpu.s32 %0, [%1];" : "=r"(value) : "l"(&flag) : "memory");
#endif
    return value;
}
extern "C" __global__ void k(int* out) {
    if (blockIdx.x == 1) {
        for (int i = 0; i < 4; ++i) data[i] = i + 1;
        asm volatile("st.release.gpu.s32 [%0], 1;" :: "l"(&flag) : "memory");
    } else {
        while (load_flag() == 0) {}
        for (int i = 0; i < 4; ++i) out[i] = data[i];
        for (int i = 0; i < 4; ++i) data[i] = 0;
        *(volatile int*)&flag = 0;
    }
}""", 2, 1, [1, 2, 3, 4], (True, True)),
    Case("two_loads_in_the_wrong_order", r"""
__device__ int first, second;
extern "C" __global__ void k(int* out) {
    if (blockIdx.x == 1) {                       // first is never behind second
        for (int i = 1; i <= 4; ++i) {
            *(volatile int*)&first = i;
            __threadfence();
            *(volatile int*)&second = i;
        }
        __threadfence();
        atomicAdd(out + 1, 1);
    } else {
        int wrong = 0;
        for (int i = 0; i < 8; ++i) {
            const int b = *(volatile int*)&second;
            FIX(__threadfence();)
            const int a = *(volatile int*)&first;
            wrong += a < b;
        }
        out[0] = wrong;
        while (atomicAdd(out + 1, 0) == 0) {}
        first = 0;
        second = 0;
    }
}""", 2, 1, [0, 1], (True, True)),
    Case("warp_synchronous", r"""
extern "C" __global__ void k(int* out) {
    __shared__ volatile int s[64];
    const int t = threadIdx.x;
    s[t] = t; s[t + 32] = t + 32;
    FIX(__syncwarp();)
    for (int step = 32; step > 0; step /= 2) {
        const int sum = s[t] + (t < step ? s[t + step] : 0);
        FIX(__syncwarp();)
        s[t] = sum;
        FIX(__syncwarp();)
    }
    if (t == 0) out[0] = s[0];
}""", 1, 32, [64 * 63 // 2]),
    Case("lost_update", r"""
extern "C" __global__ void k(int* out) {
#if FIX(1) + 0
    atomicAdd(out, 1);
#else
    *(volatile int*)out = *(volatile int*)out + 1;
#endif
}""", 4, 8, [32]),
    Case("last_block_without_fence", r"""
__device__ int partial[8];
__device__ unsigned count;
extern "C" __global__ void k(int* out) {
    partial[blockIdx.x] = blockIdx.x + 1;
    FIX(__threadfence();)
    if (atomicInc(&count, gridDim.x - 1) == gridDim.x - 1) {
        __threadfence();
        int sum = 0;
        for (int i = 0; i < gridDim.x; ++i) sum += *(volatile int*)&partial[i];
        *out = sum;
        for (int i = 0; i < gridDim.x; ++i) partial[i] = 0;
    }
}""", 8, 1, [36]),
    Case("lock_without_fence", r"""
__device__ int lock;
extern "C" __global__ void k(int* out) {
    while (atomicCAS(&lock, 0, 1) != 0) __nanosleep(20);
    __threadfence();
    out[0] += 1;
    FIX(__threadfence();)
    atomicExch(&lock, 0);
}""", 6, 2, [12]),
    Case("grid_barrier_without_cooperative_launch", r"""
__device__ unsigned arrived;
extern "C" __global__ void k(int* out) {
    __threadfence();
    atomicAdd(&arrived, 1);
    while (*(volatile unsigned*)&arrived % gridDim.x != 0) __nanosleep(20);
    out[blockIdx.x] = 1;
}""", 8, 1, [1] * 8, (False, True)),
]  # fmt: skip
