# SPDX-License-Identifier: Apache-2.0
"""The ten kernels in Numba for a CPU: loops with prange for the outer one. Compiled with parallel=True."""
# mypy: ignore-errors

import math

import numba
import numpy as np
from numba import prange


def saxpy(a, x, y, n):
    for i in prange(n):
        y[i] = a * x[i] + y[i]


def vector_add(a, b, c, n, times):
    for _ in range(times):
        for i in prange(n):
            c[i] = a[i] + b[i]


def matmul(a, b, c, n):
    for i in prange(n):
        for j in range(n):
            c[i, j] = 0
        for k in range(n):
            factor = a[i, k]
            for j in range(n):
                c[i, j] += factor * b[k, j]


def reduce(x, out, n):
    total = np.float32(0)
    for i in prange(n):
        total += x[i]
    out[0] = total


def histogram(x, bins, n):
    parts = numba.get_num_threads()
    counts = np.zeros((parts, 256), np.uint32)
    for part in prange(parts):
        for i in range(part * n // parts, (part + 1) * n // parts):
            counts[part, x[i]] += 1
    for b in range(256):
        total = np.uint32(0)
        for part in range(parts):
            total += counts[part, b]
        bins[b] = total


def mandelbrot(out, width, height, most):
    for py in prange(height):
        cy = np.float32(-1.5) + np.float32(3) * np.float32(py) / np.float32(height)
        for px in range(width):
            cx = np.float32(-2) + np.float32(3) * np.float32(px) / np.float32(width)
            x = y = np.float32(0)
            n = 0
            while x * x + y * y <= np.float32(4) and n < most:
                t = x * x - y * y + cx
                y = np.float32(2) * x * y + cy
                x = t
                n += 1
            out[py, px] = n


@numba.njit(inline="always")
def _normal(d):
    k = np.float32(1) / (np.float32(1) + np.float32(0.2316419) * abs(d))
    series = np.float32(-1.821255978) + k * np.float32(1.330274429)
    series = np.float32(-0.356563782) + k * (np.float32(1.781477937) + k * series)
    c = np.float32(0.39894228) * math.exp(np.float32(-0.5) * d * d) * (k * (np.float32(0.31938153) + k * series))
    return np.float32(1) - c if d > 0 else c


def blackscholes(call, put, price, strike, years, rate, volatility, n):
    for i in prange(n):
        s, x, t = price[i], strike[i], years[i]
        root = math.sqrt(t)
        d1 = (math.log(s / x) + (rate + np.float32(0.5) * volatility * volatility) * t) / (volatility * root)
        d2 = d1 - volatility * root
        n1, n2, discount = _normal(d1), _normal(d2), x * math.exp(-rate * t)
        call[i] = s * n1 - discount * n2
        put[i] = discount * (np.float32(1) - n2) - s * (np.float32(1) - n1)


def nbody(position, force, n):
    for i in prange(n):
        mx, my, mz = position[i, 0], position[i, 1], position[i, 2]
        ax = ay = az = np.float32(0)
        for j in range(n):
            dx, dy, dz = position[j, 0] - mx, position[j, 1] - my, position[j, 2] - mz
            inverse = np.float32(1) / math.sqrt(dx * dx + dy * dy + dz * dz + np.float32(1e-6))
            s = position[j, 3] * inverse * inverse * inverse
            ax += dx * s
            ay += dy * s
            az += dz * s
        force[i, 0], force[i, 1], force[i, 2], force[i, 3] = ax, ay, az, np.float32(0)


def stencil(x, out, nx, ny, nz):
    for k in prange(1, nz - 1):
        for j in range(1, ny - 1):
            for i in range(1, nx - 1):
                around = (
                    x[k, j, i - 1] + x[k, j, i + 1] + x[k, j - 1, i] + x[k, j + 1, i] + x[k - 1, j, i] + x[k + 1, j, i]
                )
                out[k, j, i] = np.float32(0.4) * x[k, j, i] + np.float32(0.1) * around


def scan(x, out, sums, n):
    for b in prange(n // 256):
        total = np.int32(0)
        for i in range(b * 256, (b + 1) * 256):
            total += x[i]
            out[i] = total
        sums[b] = total
