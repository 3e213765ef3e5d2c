# SPDX-License-Identifier: Apache-2.0
"""Tensor memory (tcgen05): a model of its layouts, written from the text of the PTX manual, and a kernel around one instruction."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field

import numpy as np

from .program import device

LANES, WIDTH = 128, 512

# name: bits, exponent bits, mantissa bits, bias (floats); the code of the type in an instruction descriptor
FLOATS = {
    "f16": (16, 5, 10), "bf16": (16, 8, 7), "tf32": (32, 8, 23), "e4m3": (8, 4, 3), "e5m2": (8, 5, 2),
    "e2m3": (6, 2, 3), "e3m2": (6, 3, 2), "e2m1": (4, 2, 1),
}  # fmt: skip
CODES = {
    "f16": 0, "bf16": 1, "tf32": 2, "e4m3": 0, "e5m2": 1, "e2m3": 3, "e3m2": 4, "e2m1": 5, "u8": 0, "s8": 1, "fp4": 1,
}  # fmt: skip
SWIZZLES = {
    "none": (0, 0, 4, 3),
    "128B.32B": (1, 2, 5, 2),
    "128B": (2, 3, 4, 3),
    "64B": (4, 2, 4, 3),
    "32B": (6, 1, 4, 3),
}
SPAN = {"none": 16, "32B": 32, "64B": 64, "128B": 128, "128B.32B": 128}


def value_of(name: str, code: int) -> float:
    """The value of a code."""
    if name in ("u8", "s8"):
        return float(code - 256 if name == "s8" and code > 127 else code)
    bits, exponent_bits, mantissa_bits = FLOATS["e2m1" if name == "fp4" else name]
    if name == "tf32":
        code &= 0xFFFFE000
    exponent = code >> mantissa_bits & (2**exponent_bits - 1)
    mantissa = code & (2**mantissa_bits - 1)
    bias = 2 ** (exponent_bits - 1) - 1
    size = (mantissa + (2**mantissa_bits if exponent else 0)) * 2.0 ** (max(exponent, 1) - bias - mantissa_bits)
    return -size if code >> (bits - 1) & 1 else size


def per_chunk(name: str) -> int:
    """Elements in 16 bytes: small ones in shared memory are padded to one per byte, those of .kind::mxf4 (fp4) are not."""
    return {"f16": 8, "bf16": 8, "tf32": 4, "fp4": 32}.get(name, 16)


def chunk_of(name: str, codes: np.ndarray) -> bytes:
    """16 bytes of shared memory with these elements."""
    bits = 4 if name == "fp4" else 8 if name in ("u8", "s8") else FLOATS[name][0]
    total = sum(int(code) << (bits * n) for n, code in enumerate(codes))
    return total.to_bytes(16, "little")


def cells_of(name: str, codes: np.ndarray) -> np.ndarray:
    """A row of tensor memory with these elements, as 32-bit columns: small ones are in bytes, e2m1 in bits 2 to 5."""
    if name in ("e2m3", "e3m2", "e2m1"):
        return (codes.astype(np.uint8) << (2 if name == "e2m1" else 0)).astype(np.uint8).view(np.uint32)
    count = per_chunk(name)
    return np.frombuffer(b"".join(chunk_of(name, codes[n : n + count]) for n in range(0, len(codes), count)), np.uint32)


@dataclass
class Matrix:
    """Rows of m or n by columns of k in shared memory, by the canonical layouts of the manual."""

    name: str
    codes: np.ndarray
    swizzle: str = "none"
    mn_major: bool = False
    start: int = 0  #: a multiple of 1024
    leading: int = 0
    stride: int = 0
    skip: int = 0  #: bytes of the rows of 128 before the matrix; what is after the rows is at `rest`
    rest: int = 0  #: a multiple of 1024, after `start`; the leading dimension is then this address
    bytes: int = field(init=False)

    def __post_init__(self) -> None:
        rows, depth = self.codes.shape
        span, count = SPAN[self.swizzle], per_chunk(self.name)
        if not self.mn_major:
            self.stride = self.stride or 8 * span + (32 if self.swizzle == "none" else 0)
            self.leading = self.leading or (self.stride * (rows // 8) if self.swizzle == "none" else 16)
        elif self.swizzle == "none":
            self.leading = self.leading or 128 + 16
            self.stride = self.stride or self.leading * -(-depth // 8)
        else:
            lines = 4 if self.swizzle == "128B.32B" else 8
            self.stride = self.stride or lines * span
            self.leading = self.leading or self.stride * -(-depth // lines)
        fast, slow = (rows, depth) if self.mn_major else (depth, rows)
        self.bytes = max(self.offset(s, f) for s in range(slow) for f in range(0, fast, count)) + 16

    def offset(self, slow: int, fast: int) -> int:
        """Of the chunk with element (slow, fast); fast is k, or with mn_major m or n."""
        unit, span = fast // per_chunk(self.name), SPAN[self.swizzle]
        if self.skip:
            position = self.skip // 16 + unit
            at = slow % 8 * span + slow // 8 * self.stride + position % 8 * 16 + (self.rest if position >= 8 else 0)
        elif not self.mn_major:
            at = slow % 8 * span + slow // 8 * self.stride + (unit * self.leading if span == 16 else unit * 16)
        elif span == 16:
            at = slow % 8 * 16 + slow // 8 * self.leading + unit * self.stride
        else:
            lines, units = (4 if self.swizzle == "128B.32B" else 8), span // 16
            at = unit % units * 16 + unit // units * self.leading + slow % lines * span + slow // lines * self.stride
        _, bits, base, shift = SWIZZLES[self.swizzle]
        return at ^ ((at >> (base + shift) & (2**bits - 1)) << base)

    def write(self, image: np.ndarray) -> None:
        count = per_chunk(self.name)
        grid = self.codes.T if self.mn_major else self.codes
        for slow in range(grid.shape[0]):
            for fast in range(0, grid.shape[1], count):
                at = self.start + self.offset(slow, fast)
                image[at : at + 16] = np.frombuffer(chunk_of(self.name, grid[slow, fast : fast + count]), np.uint8)

    @property
    def descriptor(self) -> int:
        """Without the address of dynamic shared memory, which the kernel adds."""
        leading = self.start + self.rest if self.rest else self.leading
        return (
            (self.start + self.skip) >> 4
            | (leading >> 4) << 16
            | (self.rest != 0) << 52
            | (self.stride >> 4) << 32
            | 1 << 46
            | SWIZZLES[self.swizzle][0] << 61
        )


def place(
    m: int, n: int, rows: int, columns: int, ctas: int = 1, ws: bool = False, sparse: bool = False
) -> tuple[int, int, int]:
    """Block, lane and column of element (m, n) of d: layouts A to G of the manual."""
    cta, local, own = m // (rows // ctas), m % (rows // ctas), rows // ctas
    if own == 128:  # layouts A and D
        return cta, local, n
    if ws or (ctas == 2 and not sparse):  # layouts B, E and G: parts of n in other lanes
        width = columns // (128 // own)
        return cta, local + own * (n // width), n % width
    return cta, local // 16 * 32 + local % 16, n  # layouts C and F: half of the lanes


def fragment(shape: str, thread: int, register: int, split: int = 0) -> tuple[int, int]:
    """Lane and column of a register of tcgen05.ld and .st."""
    if shape == "32x32b":
        return thread, register
    if shape == "16x32bx2":
        return thread % 16, register + split * (thread // 16)
    if shape == "16x64b":
        return thread // 4 + 8 * (thread % 2), 2 * register + thread // 2 % 2
    if shape == "16x128b":
        return thread // 4 + 8 * (register % 2), 4 * (register // 2) + thread % 4
    return thread // 4 + 8 * (register // 2 % 2), 8 * (register // 4) + 2 * (thread % 4) + register % 2


def kernel(lines: str, columns: int = WIDTH, ctas: int = 1, target: str = "sm_100a", leader: bool = True) -> str:
    """PTX of a kernel: it fills dynamic shared memory and tensor memory, lets one thread run the lines, and stores tensor memory.

    In the lines: %d is the address of tensor memory, %a and %b are descriptors, %z and %i further operands, %ready is the
    mbarrier that the lines commit to. With leader=False all threads run them, and %lane is this warp's part of tensor memory.
    """
    block = 32
    names = [f"%w{n}" for n in range(block)]
    load = "".join(f"ld.global.u32 {name}, [%cell+{4 * n}];\n" for n, name in enumerate(names))
    save = "".join(f"st.global.u32 [%cell+{4 * n}], {name};\n" for n, name in enumerate(names))
    group, pair = f"cta_group::{ctas}", ctas == 2
    sync = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" if pair else "bar.sync 0;"
    return f""".version 9.1
.target {target}
.address_size 64
.extern .shared .align 1024 .b8 dynamic[];
.visible .entry k(.param .u64 image, .param .u32 bytes, .param .u64 cells, .param .u64 a, .param .u64 b, .param .u64 z, .param .u32 i)
.reqntid 128 {".reqnctapercluster 2" if pair else ""} {{
  .reg .b32 %r<40>; .reg .b32 %w<40>; .reg .b32 %d, %lane, %i, %ready, %base; .reg .b64 %a, %b, %z, %cell, %rd<8>; .reg .pred %p<8>;
  .reg .f32 %f<8>; .reg .b16 %h<4>;
  .shared .align 8 .b8 words[16];
  ld.param.u64 %a, [a]; ld.param.u64 %b, [b]; ld.param.u64 %z, [z]; ld.param.u32 %i, [i];
  mov.u32 %base, dynamic; mov.u32 %r0, %tid.x; mov.u32 %r1, %cluster_ctarank; ld.param.u32 %r2, [bytes]; mov.u32 %r9, %ctaid.x;
  shr.u32 %r3, %base, 4; cvt.u64.u32 %rd0, %r3; add.u64 %a, %a, %rd0; add.u64 %b, %b, %rd0;
  ld.param.u64 %rd1, [image]; mul.wide.u32 %rd2, %r9, %r2; add.u64 %rd1, %rd1, %rd2;
  shl.b32 %r4, %r0, 4;
COPY:
  setp.ge.u32 %p0, %r4, %r2; @%p0 bra COPIED;
  cvt.u64.u32 %rd3, %r4; add.u64 %rd4, %rd1, %rd3; add.u32 %r5, %base, %r4;
  ld.global.v4.u32 {{%w0, %w1, %w2, %w3}}, [%rd4]; st.shared.v4.u32 [%r5], {{%w0, %w1, %w2, %w3}};
  add.u32 %r4, %r4, 2048; bra COPY;
COPIED:
  mov.u32 %ready, words; add.u32 %ready, %ready, 8;
  setp.ne.u32 %p1, %r0, 0;
  @!%p1 mbarrier.init.shared.b64 [%ready], 1;
  setp.ge.u32 %p2, %r0, 32; @%p2 bra ALLOCATED;
  tcgen05.alloc.{group}.sync.aligned.shared::cta.b32 [words], {columns};
  tcgen05.relinquish_alloc_permit.{group}.sync.aligned;
ALLOCATED:
  {sync}
  ld.shared.u32 %d, [words];
  shr.u32 %r6, %r0, 5; shl.b32 %r6, %r6, 21; add.u32 %lane, %d, %r6;
  ld.param.u64 %cell, [cells]; mul.wide.u32 %rd5, %r0, {4 * columns}; add.u64 %cell, %cell, %rd5;
  mul.wide.u32 %rd6, %r9, {4 * columns * LANES}; add.u64 %cell, %cell, %rd6;
  mov.u64 %rd7, %cell; mov.u32 %r7, 0;
FILL:
  {load} add.u32 %r8, %lane, %r7;
  tcgen05.st.sync.aligned.32x32b.x{block}.b32 [%r8], {{{", ".join(names)}}};
  add.u64 %cell, %cell, {4 * block}; add.u32 %r7, %r7, {block}; setp.lt.u32 %p3, %r7, {columns}; @%p3 bra FILL;
  tcgen05.wait::st.sync.aligned; tcgen05.fence::before_thread_sync; fence.proxy.async.shared::cta;
  {sync}
  tcgen05.fence::after_thread_sync;
  setp.eq.u32 %p6, %r0, 0; setp.eq.u32 %p7, %r1, 0; and.pred %p7, %p6, %p7;
  {"@!%p7 bra DONE;" if leader else ""}
  setp.eq.u32 %p4, %r0, %r0; setp.ne.u32 %p5, %r0, %r0;
  {lines}
DONE:
  {sync}
  {"WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p0, [%ready], 0; @!%p0 bra WAIT;" if "%ready" in lines else ""}
  tcgen05.fence::after_thread_sync;
  mov.u64 %cell, %rd7; mov.u32 %r7, 0;
SAVE:
  add.u32 %r8, %lane, %r7;
  tcgen05.ld.sync.aligned.32x32b.x{block}.b32 {{{", ".join(names)}}}, [%r8]; tcgen05.wait::ld.sync.aligned;
  {save} add.u64 %cell, %cell, {4 * block}; add.u32 %r7, %r7, {block}; setp.lt.u32 %p3, %r7, {columns}; @%p3 bra SAVE;
  {sync}
  setp.ge.u32 %p2, %r0, 32; @%p2 bra END;
  tcgen05.dealloc.{group}.sync.aligned.b32 %d, {columns};
END:
  ret;
}}
"""


def commit(ctas: int = 1) -> str:
    if ctas == 1:
        return "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%ready];"
    return "mov.u16 %h0, 3; tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%ready], %h0;"


def run(text: str, cells: np.ndarray, image: np.ndarray, a: int = 0, b: int = 0, z: int = 0, i: int = 0) -> np.ndarray:
    """Runs the kernel with this tensor memory (blocks x 128 x columns) and shared memory (blocks x bytes); the new tensor memory."""
    module = device().load(text.encode())
    function = device().function(module, "k")
    memory, shared = device().memory(cells.reshape(-1)), device().memory(image.reshape(-1))
    size = image.shape[-1]
    device().reserve_shared(function, size)
    values = [
        shared.address,
        ctypes.c_uint32(size),
        memory.address,
        *(ctypes.c_uint64(v) for v in (a, b, z)),
        ctypes.c_uint32(i),
    ]
    try:
        device().launch(function, cells.shape[0], 128, values, size)
        device().sync()
        return memory.read(np.dtype(np.uint32), cells.size).reshape(cells.shape)
    finally:
        memory.free()
        shared.free()
        device().unload(module)


def fault_report() -> str:
    """The report of the last fault; the context is new afterwards."""
    report = device().lib.cucoreGetLastFaultReport
    report.restype = ctypes.c_char_p
    text = report().decode()
    device().reset()
    return text
