# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
# (The module gdb exists inside GDB only.)
"""GDB commands for kernels on the CPU device. GDB runs this file: `cucore gdb program.py`, or `source FILE` in GDB.

cucore threads              list the threads of resident blocks: state and position
cucore thread X [Y [Z]]     select a thread of the current block, or continue until it starts
cucore block X [Y [Z]]      select the first thread of a block, or continue until it starts

A kernel in debug mode runs its threads one after the other on one host thread. A thread that waits at a barrier is
suspended with its stack. To inspect such a thread, an unwinder presents its frames as the callers of the innermost
frame: the program is not modified, and the next step or continue resumes at the point where it stopped.
"""

import struct

import gdb
import gdb.unwinder
from gdb.FrameDecorator import FrameDecorator  # noqa: F401  (GDB imports it on demand otherwise)

# The order of cucpu_debugger_layout in cpu/engine/run/debugger.cpp.
LAYOUT = (
    "version",
    "current",
    "residents",
    "cluster_blocks",
    "block_context",
    "block_fibers",
    "block_started",
    "fiber_size",
    "fiber_sp",
    "fiber_block",
    "fiber_thread",
    "fiber_wait",
    "fiber_barrier",
    "context_shared",
    "context_shared_bytes",
    "context_threads",
)
VERSION = 1
STATES = (
    "not started",
    "running",
    "ready",
    "at barrier",
    "at a warp operation",
    "at a warpgroup operation",
    "at activemask",
    "at the cluster barrier",
    "ended",
)
NOT_STARTED, RUNNING, BARRIER, DONE = 0, 1, 3, 8

# Registers that cucpu_fiber_switch pushes (cpu/engine/run/fiber_switch.S) -> offset from the saved stack pointer.
SAVED = {
    "x86-64": (
        [(name, 8 * at) for at, name in enumerate(("r15", "r14", "r13", "r12", "rbx", "rbp", "rip"))],
        "rsp",
        56,
        "rip",
    ),
    "aarch64": (
        [(f"x{19 + at}", 8 * at) for at in range(12)] + [("pc", 88)],
        "sp",
        160,
        "pc",
    ),
}


def fail(text):
    raise gdb.GdbError(text)


def read(address, form):
    """Reads values at an address in a format of `struct`. Returns a tuple, or a single value."""
    memory = gdb.selected_inferior().read_memory(address, struct.calcsize("<" + form))
    values = struct.unpack("<" + form, bytes(memory))
    return values[0] if len(values) == 1 else values


def symbol(name):
    try:
        return int(gdb.parse_and_eval(f"(unsigned long)&{name}"))
    except gdb.error:
        return 0


def layout():
    at = symbol("cucpu_debugger_layout")
    if not at:
        fail("the CPU device is not loaded yet")
    numbers = dict(zip(LAYOUT, read(at, f"{len(LAYOUT)}Q"), strict=True))
    if numbers["version"] == 0:
        fail("no kernel has run in debug mode yet: compile it with ProgramOptions(debug=True), or set CUCORE_DEBUG=1")
    if numbers["version"] != VERSION:
        fail("this extension and the CPU device are of different versions of cucore")
    return numbers


def spell(index):
    return "({},{},{})".format(*index)


class Thread:
    """A thread of a resident block: its fiber, or only its index if it has not started."""

    def __init__(self, block, linear, address):
        self.block, self.linear, self.address = block, linear, address
        n = block.layout
        x, y, _ = block.shape
        self.index = (linear % x, linear // x % y, linear // (x * y))
        self.state = NOT_STARTED
        if linear < block.started:
            self.state = read(address + n["fiber_wait"], "B")
        self.sp = read(address + n["fiber_sp"], "Q")
        self.barrier = read(address + n["fiber_barrier"], "B")

    def describe(self):
        text = STATES[self.state] if self.state < len(STATES) else f"state {self.state}"
        return f"{text} {self.barrier}" if self.state == BARRIER else text


class Block:
    def __init__(self, run, address):
        self.run, self.address, self.layout = run, address, run.layout
        n = self.layout
        context = address + n["block_context"]
        numbers = read(context, "9I")
        self.grid, self.shape, self.index = numbers[0:3], numbers[3:6], numbers[6:9]
        self.count = read(context + n["context_threads"], "I")
        self.started = read(address + n["block_started"], "I")
        self.fibers = read(address + n["block_fibers"], "Q")

    def thread(self, linear):
        return Thread(self, linear, self.fibers + linear * self.layout["fiber_size"])

    def threads(self):
        return (self.thread(linear) for linear in range(self.count))


class Run:
    """A host thread that runs a kernel in debug mode."""

    def __init__(self, address, numbers):
        self.layout = numbers
        self.next, self.scheduler, name, self.host_thread, self.entry = read(address, "5Q")
        self.kernel = gdb.Value(name).cast(gdb.lookup_type("char").pointer()).string()

    def blocks(self):
        n = self.layout
        first, last = read(self.scheduler + n["residents"], "2Q")
        for at in range(first, last, 8):
            begin, end = read(read(at, "Q") + n["cluster_blocks"], "2Q")
            for place in range(begin, end, 8):
                yield Block(self, read(place, "Q"))

    def current(self):
        """Returns the running thread."""
        n = self.layout
        fiber = read(self.scheduler + n["current"], "Q")
        if not fiber:
            return None
        block = Block(self, read(fiber + n["fiber_block"], "Q"))
        return block.thread(read(fiber + n["fiber_thread"] + 20, "I"))


def runs():
    numbers = layout()
    at = read(symbol("cucpu_debugger_runs"), "Q")
    while at:
        run = Run(at, numbers)
        yield run
        at = run.next


def current_run():
    """Returns the run of the selected host thread, or else the only run."""
    found = list(runs())
    if not found:
        fail("no kernel is running in debug mode")
    thread = gdb.selected_thread()
    for run in found:
        if thread is not None and thread.ptid[1] == run.host_thread:
            return run
    if len(found) == 1:
        for other in gdb.selected_inferior().threads():
            if other.ptid[1] == found[0].host_thread:
                other.switch()
        return found[0]
    fail("several kernels are running: select the host thread of one with `thread N`")


# ---- inspection of suspended threads ----


def saved_registers(architecture):
    return SAVED["aarch64" if architecture.name().startswith("aarch64") else "x86-64"]


class FrameId:
    def __init__(self, sp, pc):
        self.sp, self.pc = sp, pc


class SuspendedThread(gdb.unwinder.Unwinder):
    """While a suspended thread is selected, presents its frames as the callers of the innermost frame."""

    def __init__(self):
        super().__init__("cucore suspended thread")
        self.clear()

    def clear(self):
        self.thread = self.place = None

    def look_at(self, thread):
        self.clear()
        gdb.invalidate_cached_frames()
        if thread is not None:
            frame = gdb.newest_frame()
            sp = int(frame.read_register(saved_registers(frame.architecture())[1]))
            self.place = (sp, frame.pc(), gdb.selected_thread().ptid)
            self.thread = thread
        gdb.invalidate_cached_frames()

    def __call__(self, pending):
        if self.thread is None:
            return None
        slots, stack, size, counter = saved_registers(pending.architecture())
        sp, pc = int(pending.read_register(stack)), int(pending.read_register(counter))
        if (sp, pc, gdb.selected_thread().ptid) != self.place:
            return None
        pointer = gdb.lookup_type("void").pointer()
        frame_id = FrameId(gdb.Value(self.thread.sp).cast(pointer), gdb.Value(pc).cast(pointer))
        info = pending.create_unwind_info(frame_id)
        for register, offset in slots:
            kind = pending.read_register(register).type
            info.add_saved_register(register, gdb.Value(read(self.thread.sp + offset, "Q")).cast(kind))
        kind = pending.read_register(stack).type
        info.add_saved_register(stack, gdb.Value(self.thread.sp + size).cast(kind))
        return info


SUSPENDED = SuspendedThread()


def in_runtime(frame):
    """Returns whether the frame belongs to the device's runtime. Its functions have no names in a wheel, where the library is
    stripped; kernels are in no library."""
    name = frame.name() or ""
    if name.startswith("cucpu") or "cucpu::" in name:
        return True
    library = gdb.solib_name(frame.pc())
    return library is not None and library == gdb.solib_name(symbol("cucpu_debugger_layout"))


def in_kernel(frame):
    """Returns whether the frame has a source line and does not belong to the device's runtime."""
    place = frame.find_sal()
    name = frame.name() or ""
    return place.symtab is not None and not name.startswith("cucpu") and "cpu/engine" not in place.symtab.filename


def kernel_frame(skip_innermost):
    frame = gdb.newest_frame()
    if skip_innermost:
        frame = frame.older()
    for _ in range(32):  # frames of the runtime are innermost
        if frame is None:
            return None
        if in_kernel(frame):
            return frame
        frame = frame.older()
    return None


def position(thread):
    """Returns the position of a thread as `file:line`."""
    if thread.state in (NOT_STARTED, DONE):
        return ""
    suspended = thread.state != RUNNING
    SUSPENDED.look_at(thread if suspended else None)
    try:
        frame = kernel_frame(suspended)
        if frame is None:
            return "?"
        place = frame.find_sal()
        return f"{place.symtab.filename.rsplit('/', 1)[-1]}:{place.line}"
    finally:
        SUSPENDED.look_at(None)


def select(thread):
    suspended = thread.state != RUNNING
    SUSPENDED.look_at(thread if suspended else None)
    frame = kernel_frame(suspended)
    (frame or gdb.newest_frame()).select()
    gdb.write(f"block {spell(thread.block.index)} thread {spell(thread.index)}: {thread.describe()}\n")
    gdb.execute("frame", from_tty=False)


# ---- continuing to threads that have not started ----


class StartOf(gdb.Breakpoint):
    """A breakpoint at the start of a kernel's thread, after the prologue."""

    def __init__(self, run, block, thread):
        self.wanted = (block, thread)
        super().__init__(f"*{behind_prologue(run.entry):#x}", internal=True)
        self.silent = True

    def stop(self):
        frame = gdb.newest_frame()
        here = tuple(tuple(int(frame.read_var(name)[d]) for d in "xyz") for name in ("blockIdx", "threadIdx"))
        return here == self.wanted


def behind_prologue(entry):
    place = gdb.find_pc_line(entry)
    block = gdb.block_for_pc(entry)
    if place.symtab is None or block is None:
        fail("the kernel has no debug information")
    starts = [item.pc for item in place.symtab.linetable() if entry < item.pc < block.end and item.line != 0]
    return min(starts, default=entry)


def run_to(run, block, thread):
    """Continues until a thread starts. Disables other breakpoints meanwhile: earlier threads would stop there."""
    others = [point for point in gdb.breakpoints() if point.enabled]
    stop = StartOf(run, block, thread)
    gdb.write(f"continuing until block {spell(block)} thread {spell(thread)} starts\n")
    for point in others:
        point.enabled = False
    try:
        gdb.execute("continue", to_string=True)
    finally:
        stop.delete()
        for point in others:
            if point.is_valid():
                point.enabled = True
    gdb.execute("frame")


# ---- commands ----


class Cucore(gdb.Command):
    """Kernels on the CPU device: cucore threads, cucore thread X Y Z, cucore block X Y Z."""

    def __init__(self):
        super().__init__("cucore", gdb.COMMAND_RUNNING, gdb.COMPLETE_NONE, True)


class Threads(gdb.Command):
    """List the threads of resident blocks: cucore threads."""

    def __init__(self):
        super().__init__("cucore threads", gdb.COMMAND_STATUS)

    def invoke(self, text, from_tty):
        if text.strip():
            fail("cucore threads takes no argument")
        SUSPENDED.look_at(None)
        run = current_run()
        current = run.current()
        first = True
        for block in run.blocks():
            if first:
                gdb.write(
                    f"kernel {run.kernel}, grid {spell(block.grid)}, block {spell(block.shape)}, "
                    f"host thread {run.host_thread}\n"
                )
                gdb.write(f"  {'block':12} {'threads':24} {'state':20} where\n")
                first = False
            for row in self.rows(block, current):
                gdb.write(row + "\n")
        if first:
            gdb.write(f"kernel {run.kernel}: no block is running\n")
        SUSPENDED.look_at(None)

    @staticmethod
    def rows(block, current):
        """Returns the rows of the table. Neighboring threads in the same state and at the same line share a row."""
        groups = []
        for thread in block.threads():
            is_current = (
                current is not None and current.block.address == block.address and current.linear == thread.linear
            )
            key = (thread.describe(), position(thread), is_current)
            if groups and groups[-1][0] == key:
                groups[-1][2] = thread
            else:
                groups.append([key, thread, thread])
        for (state, where, is_current), first, last in groups:
            names = spell(first.index) if first is last else f"{spell(first.index)}..{spell(last.index)}"
            yield f"{'*' if is_current else ' '} {spell(block.index):12} {names:24} {state:20} {where}".rstrip()


def numbers_of(text, what):
    words = text.replace(",", " ").replace("(", " ").replace(")", " ").split()
    if not 1 <= len(words) <= 3 or not all(word.isdigit() for word in words):
        fail(f"name a {what} by one to three numbers, as in `cucore {what} 3 0 0`")
    return tuple(int(word) for word in [*words, "0", "0"][:3])


def inside(index, shape, what):
    if any(at >= limit for at, limit in zip(index, shape, strict=True)):
        fail(f"there is no {what} {spell(index)}: the shape is {spell(shape)}")


def linear(index, shape):
    return index[0] + shape[0] * (index[1] + shape[1] * index[2])


def focus():
    """Returns the run, and the thread that commands refer to."""
    run = current_run()
    thread = SUSPENDED.thread or run.current()
    if thread is None:
        fail("no block is running")
    return run, thread


class SelectThread(gdb.Command):
    """Select a thread of the current block, or continue until it starts: cucore thread X [Y [Z]]."""

    def __init__(self):
        super().__init__("cucore thread", gdb.COMMAND_STACK)

    def invoke(self, text, from_tty):
        run, now = focus()
        if not text.strip():
            gdb.write(f"block {spell(now.block.index)} thread {spell(now.index)}: {now.describe()}\n")
            return
        wanted = numbers_of(text, "thread")
        shape = now.block.shape
        if text.split() == [str(wanted[0])] and wanted[0] < now.block.count:  # a linear index
            wanted = now.block.thread(wanted[0]).index
        inside(wanted, shape, "thread")
        thread = now.block.thread(linear(wanted, shape))
        if thread.state == DONE:
            fail(f"thread {spell(wanted)} has ended")
        if thread.state == NOT_STARTED:
            SUSPENDED.look_at(None)
            return run_to(run, now.block.index, wanted)
        select(thread)


class SelectBlock(gdb.Command):
    """Select the first thread of a block, or continue until it starts: cucore block X [Y [Z]]."""

    def __init__(self):
        super().__init__("cucore block", gdb.COMMAND_STACK)

    def invoke(self, text, from_tty):
        run, now = focus()
        if not text.strip():
            gdb.write(f"block {spell(now.block.index)} of {spell(now.block.grid)}\n")
            return
        wanted = numbers_of(text, "block")
        inside(wanted, now.block.grid, "block")
        residents = list(run.blocks())
        for block in residents:
            if block.index != wanted:
                continue
            for thread in block.threads():
                if thread.state not in (NOT_STARTED, DONE):
                    return select(thread)
            SUSPENDED.look_at(None)
            return run_to(run, wanted, (0, 0, 0))
        if linear(wanted, now.block.grid) < min(linear(block.index, now.block.grid) for block in residents):
            fail(f"block {spell(wanted)} has ended")
        SUSPENDED.look_at(None)
        run_to(run, wanted, (0, 0, 0))


def in_kernel_of_suspended(frame):
    return frame.level() > 0 and in_kernel(frame)


class KernelFrames:
    """A frame filter that removes the device's runtime: the callers of a kernel, and the innermost frames of a
    suspended thread."""

    def __init__(self):
        self.name, self.enabled, self.priority = "cucore kernels", True, 100
        gdb.current_progspace().frame_filters[self.name] = self

    def filter(self, frames):
        seen = False
        for frame in frames:
            if SUSPENDED.thread is not None and not in_kernel_of_suspended(frame.inferior_frame()):
                continue
            if seen and in_runtime(frame.inferior_frame()):
                return
            seen = seen or in_kernel(frame.inferior_frame())
            yield frame


def forget(_event):
    if SUSPENDED.thread is not None:
        SUSPENDED.clear()
        gdb.invalidate_cached_frames()


def install():
    gdb.unwinder.register_unwinder(None, SUSPENDED, replace=True)
    gdb.events.cont.connect(forget)
    for command in (Cucore, Threads, SelectThread, SelectBlock):
        command()
    KernelFrames()
    gdb.execute("set breakpoint pending on")  # kernels are compiled at their first launch
    gdb.execute("skip -gfi */cpu/engine/*")


install()
