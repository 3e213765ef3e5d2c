# SPDX-License-Identifier: Apache-2.0
"""Logs, core dumps, checkpoints and the profiler through the driver bindings."""

from __future__ import annotations

import os
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import pytest
from cuda.bindings import driver as d

SETTING = d.CUcoredumpSettings


def test_logs_are_dumped_to_memory_file_and_callback(context: Any, since: Any, check: Any, tmp_path: Path) -> None:
    since(12090)
    seen: list[Any] = []

    def told(data: Any, level: int, message: bytes) -> None:
        seen.append((data, level, message))

    registration = check(d.cuLogsRegisterCallback(told, "mine"))
    start = check(d.cuLogsCurrent(0))
    assert d.cuModuleLoadData(b"this is no module at all\0")[0] != 0
    text = bytearray(4096)
    check(d.cuLogsDumpToMemory(start, text, len(text), 0))
    file = tmp_path / "log"
    check(d.cuLogsDumpToFile(None, str(file).encode(), 0))
    assert file.exists()
    check(d.cuLogsUnregisterCallback(registration))
    assert all(data == "mine" and message for data, _, message in seen)
    assert bool(seen) == bool(text.rstrip(b"\0"))  # file and memory contain the same log
    gone = weakref.ref(told)
    del told
    assert gone() is None
    with pytest.raises(ValueError, match="buffer has 16 bytes, but the call uses 4096"):
        d.cuLogsDumpToMemory(start, bytearray(16), 4096, 0)


def test_core_dump_attributes_have_their_types(context: Any, check: Any, tmp_path: Path) -> None:
    before = check(d.cuCoredumpGetAttributeGlobal(SETTING.CU_COREDUMP_LIGHTWEIGHT))
    assert before in (0, 1)
    check(d.cuCoredumpSetAttributeGlobal(SETTING.CU_COREDUMP_LIGHTWEIGHT, 1))
    assert check(d.cuCoredumpGetAttributeGlobal(SETTING.CU_COREDUMP_LIGHTWEIGHT)) == 1
    check(d.cuCoredumpSetAttributeGlobal(SETTING.CU_COREDUMP_LIGHTWEIGHT, before))
    name = str(tmp_path / "core.%p").encode()
    code = d.cuCoredumpSetAttribute(SETTING.CU_COREDUMP_FILE, name)[0]
    if code == 0:
        assert check(d.cuCoredumpGetAttribute(SETTING.CU_COREDUMP_FILE)).rstrip(b"\0") == name
    else:  # a driver may require the name before the context is created
        assert code == d.CUresult.CUDA_ERROR_NOT_PERMITTED
    with pytest.raises(TypeError, match="value must be"):
        d.cuCoredumpSetAttribute(SETTING.CU_COREDUMP_FILE, 1.5)


@pytest.mark.parametrize("when", ["Start", "Complete"])
def test_core_dump_callback_is_freed_when_it_is_deregistered(when: str, context: Any, since: Any, check: Any) -> None:
    since(13020)
    register = {"Start": d.cuCoredumpRegisterStartCallback, "Complete": d.cuCoredumpRegisterCompleteCallback}[when]
    deregister = {"Start": d.cuCoredumpDeregisterStartCallback, "Complete": d.cuCoredumpDeregisterCompleteCallback}[
        when
    ]

    def told(data: Any, pid: int, device: int) -> None:
        raise AssertionError("nothing has gone wrong")

    registration = check(register(told, None))
    gone = weakref.ref(told)
    del told
    assert int(registration) and gone() is not None
    check(deregister(registration))
    assert gone() is None


CHECKPOINT = """
import os
from cuda.bindings import driver as d
def check(result):
    assert result[0] == 0, result
    return result[1] if len(result) > 1 else None
check(d.cuInit(0))
check(d.cuCtxSetCurrent(check(d.cuDevicePrimaryCtxRetain(0))))
memory = check(d.cuMemAlloc(16))
check(d.cuMemsetD8(memory, 7, 16))
pid, state = os.getpid(), d.CUprocessState
assert check(d.cuCheckpointProcessGetState(pid)) == state.CU_PROCESS_STATE_RUNNING
arguments = d.CUcheckpointLockArgs()
arguments.timeoutMs = 20000
code = d.cuCheckpointProcessLock(pid, arguments)[0]
if code != 0:
    print("skip", code)
    raise SystemExit
assert check(d.cuCheckpointProcessGetState(pid)) == state.CU_PROCESS_STATE_LOCKED
check(d.cuCheckpointProcessCheckpoint(pid, None))
assert check(d.cuCheckpointProcessGetState(pid)) == state.CU_PROCESS_STATE_CHECKPOINTED
assert check(d.cuCheckpointProcessGetRestoreThreadId(pid)) > 0
check(d.cuCheckpointProcessRestore(pid, None))
check(d.cuCheckpointProcessUnlock(pid, d.CUcheckpointUnlockArgs()))
assert check(d.cuCheckpointProcessGetState(pid)) == state.CU_PROCESS_STATE_RUNNING
back = bytearray(16)
check(d.cuMemcpyDtoH(back, memory, 16))
assert back == bytes([7]) * 16
print("restored")
"""


def test_checkpointed_process_is_restored_with_its_memory(since: Any) -> None:
    since(12080)
    done = subprocess.run(
        [sys.executable, "-c", CHECKPOINT], capture_output=True, text=True, check=False, env=os.environ
    )
    assert done.returncode == 0, done.stderr
    if done.stdout.startswith("skip"):
        pytest.skip(f"this machine has no checkpoints: {done.stdout}")
    assert done.stdout.strip() == "restored"


def test_checkpoint_call_in_the_wrong_state_returns_an_error(context: Any, since: Any) -> None:
    since(12080)
    assert d.cuCheckpointProcessUnlock(os.getpid(), None)[0] != 0
    assert d.cuCheckpointProcessGetState(-1)[0] != 0


def test_the_profiler_starts_and_stops(context: Any, check: Any) -> None:
    check(d.cuProfilerStart())
    check(d.cuProfilerStop())
    old = d.cuProfilerInitialize(b"config", b"output", d.CUoutput_mode.CU_OUT_CSV)[0]  # removed in CUDA 12
    assert old in (0, d.CUresult.CUDA_ERROR_NOT_SUPPORTED, d.CUresult.CUDA_ERROR_PROFILER_DISABLED)
