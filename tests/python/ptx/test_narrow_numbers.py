# SPDX-License-Identifier: Apache-2.0
"""Computations with bytes and words that CUDA C++ extends to 32 bits: sums that saturate, and wide lane groups."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from ptxsuite.nvrtc import skip_module_without_nvrtc
from ptxsuite.program import Program

skip_module_without_nvrtc()


@pytest.fixture(autouse=True)
def without_disk_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUCORE_CPU_CACHE", "0")


# Sums of bytes or words whose results are only compared, each in a kernel of its own: name, numbers, condition.
COMPARED = {
    "equal": ("unsigned char", "a + b + c == 254"),
    "equal_to_most": ("unsigned char", "a + b + c == 255"),
    "equal_beyond": ("unsigned char", "a + b + c == 256"),
    "other": ("unsigned char", "a + b + c != 3"),
    "less": ("unsigned char", "a + b + c < 255"),
    "less_beyond": ("unsigned char", "a + b + c < 256"),
    "at_most": ("unsigned char", "a + b + c <= 200"),
    "more": ("unsigned char", "a + b + c > 254"),
    "at_least": ("unsigned char", "a + b + c >= 17"),
    "in_range": ("unsigned char", "(unsigned)(a + b + c) - 1u < 254u"),
    "of_values": ("unsigned char", "a + b + c < (c & 127)"),
    "of_sums": ("unsigned char", "a + b + c < b + c + 100"),
    "largest": ("unsigned char", "max(a + b, min(b + c, a + c)) <= 127"),
    "chosen": ("unsigned char", "(a > b ? a + c : b + 200) < 255"),
    "twice": ("unsigned char", "(a + b + c < 100) ^ (a + b == 130) ^ (b + c > 140)"),
    "bits": ("unsigned char", "((a + b + c) & 15) == 3"),
    "signs": ("signed char", "a + b + c < 100"),
    "words": ("unsigned short", "a * 1 + b + c < 65535"),
    "words_equal": ("unsigned short", "a + b + c == 65535"),
}


def sums_and_comparisons() -> str:
    return "".join(
        f"""
extern "C" __global__ void {name}(const {type}* as, const {type}* bs, const {type}* cs, unsigned char* out) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x, a = as[i], b = bs[i], c = cs[i];
  out[i] = {condition} ? 5 : 9;
}}"""
        for name, (type, condition) in COMPARED.items()
    )


def test_sums_that_are_only_compared(any_width: str) -> None:
    program = Program(sums_and_comparisons())
    random = np.random.default_rng(11)
    n = 1 << 16
    for name, (type, condition) in COMPARED.items():
        kind = {"unsigned char": np.uint8, "signed char": np.int8, "unsigned short": np.uint16}[type]
        most = np.iinfo(np.uint16 if kind is np.uint16 else np.uint8).max
        every = np.arange(n) % (most + 1) if kind is np.uint16 else np.arange(n) >> 8
        numbers = [every, np.arange(n)[::-1] & most, random.choice([0, 0, 1, 2, 127, 128, most - 1, most], n)]
        a, b, c = (x.astype(np.uint16).astype(kind) for x in numbers)
        out = np.zeros(n, np.uint8)
        program.run(name, n // 256, 256, a, b, c, out)
        values = {"a": a.astype(int), "b": b.astype(int), "c": c.astype(int), "max": np.maximum, "min": np.minimum}
        if name == "chosen":
            expected = np.where(values["a"] > values["b"], values["a"] + values["c"], values["b"] + 200) < 255
        elif name == "in_range":
            sums = values["a"] + values["b"] + values["c"]
            expected = (sums >= 1) & (sums <= 254)
        else:
            expected = eval(condition, values)
        assert np.array_equal(out, np.where(expected, 5, 9)), name


@pytest.mark.usefixtures("generated_code")
@pytest.mark.parametrize(
    ("kernel", "sums"),
    [
        ("equal", ["sat.i8"] * 2),
        ("equal_to_most", ["add i16"] * 2),
        ("less", ["sat.i8"] * 2),
        ("words", ["sat.i16"] * 2),
    ],
)
def test_sums_that_are_only_compared_saturate(
    kernel: str, sums: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUCORE_CPU_W", "16")
    monkeypatch.setenv("CUCORE_CPU_DUMP", "after:narrow-integers")
    monkeypatch.setenv("CUCORE_CPU_DUMP_DIR", str(tmp_path))
    words = [np.zeros(256, np.uint16) for _ in range(4)]
    Program(sums_and_comparisons()).run(kernel, 1, 256, *words)
    text = max(tmp_path.glob("*.narrow_integers.ll")).read_text()
    code = text[text.rindex("\ndefine") :]  # the copy that is vectorized
    found = re.findall(r"call i\d+ @llvm\.uadd\.(sat\.i\d+)|(?<== )(add i16)", code)
    assert ["".join(one) for one in found] == sums, code


STENCILS = """
extern "C" __global__ void life(const unsigned char* in, unsigned char* out, int width, int height) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < 1 || y < 1 || x >= width - 1 || y >= height - 1) return;
  int i = y * width + x;
  int around = in[i - width - 1] + in[i - width] + in[i - width + 1] + in[i - 1] + in[i + 1] + in[i + width - 1] +
               in[i + width] + in[i + width + 1];
  out[i] = around == 3 || (around == 2 && in[i]);
}
extern "C" __global__ void dilate(const unsigned short* in, unsigned short* out, int width, int height) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < 2 || x >= width - 2 || y >= height) return;
  int i = y * width + x, most = in[i];
  for (int k = -2; k <= 2; ++k) most = max(most, (int)in[i + k]);
  out[i] = most;
}
"""


def test_groups_of_narrow_numbers_at_every_border(any_width: str) -> None:
    program = Program(STENCILS)
    random = np.random.default_rng(3)
    for width in (5, 9, 31, 33, 34, 40, 63, 64, 66, 71, 97, 130):
        for block in ((32, 8, 1), (64, 2, 1), (8, 8, 1), (96, 1, 1)):
            height = 11
            grid = (-(-width // block[0]), -(-height // block[1]), 1)
            # The values make all sums from 0 to 2040.
            image = random.choice([0, 1, 1, 255], (height, width)).astype(np.uint8)
            out = np.full_like(image, 9)
            program.run("life", grid, block, image, out, width, height)
            wide = image.astype(int)
            expected = np.full_like(image, 9)
            around = sum(
                wide[1 + j : height - 1 + j, 1 + i : width - 1 + i] for j in (-1, 0, 1) for i in (-1, 0, 1) if i or j
            )
            expected[1:-1, 1:-1] = (around == 3) | ((around == 2) & (wide[1:-1, 1:-1] > 0))
            assert np.array_equal(out, expected), (width, block)
            words = random.integers(0, 1 << 16, (height, width)).astype(np.uint16)
            largest = np.full_like(words, 9)
            program.run("dilate", grid, block, words, largest, width, height)
            want = np.full_like(words, 9)
            want[:, 2:-2] = np.max([words[:, 2 + k : width - 2 + k] for k in (-2, -1, 0, 1, 2)], axis=0)
            assert np.array_equal(largest, want), (width, block)
