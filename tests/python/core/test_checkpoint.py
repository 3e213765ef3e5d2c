# SPDX-License-Identifier: Apache-2.0
"""Checkpoint of a process: lock, checkpoint, restore, unlock."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest
from cuda.core import Device
from cuda.core.checkpoint import Process


def test_process_is_identified_by_its_pid():
    Device(0).set_current()
    process = Process(os.getpid())
    assert process.pid == os.getpid() and process.state == "running"
    assert process.restore_thread_id > 0
    assert repr(process) == f"Process(pid={os.getpid()})"
    with pytest.raises(ValueError):
        Process(0)
    with pytest.raises(TypeError):
        Process("me")
    with pytest.raises(ValueError, match="timeout_ms"):
        process.lock(-1)
    with pytest.raises(ValueError, match="not a device or its UUID: 'nonsense'"):
        process.restore({"nonsense": Device(0)})


@pytest.mark.cpu_only  # a GPU's driver checkpoints other processes only, not the caller
def test_process_checkpoints_and_restores_itself():
    code = """
        import os
        from cuda.core import CUDAError, Device
        from cuda.core.checkpoint import Process
        device = Device(0); device.set_current(); stream = device.create_stream()
        buffer = device.allocate(64, stream=stream)
        buffer.fill(7, stream=stream)
        me, uuid = Process(os.getpid()), device.uuid  # while it is locked no call returns
        try:
            me.unlock()
        except CUDAError as error:
            print(error.name)
        states = []
        for step in (lambda: me.lock(1000), me.checkpoint, lambda: me.restore({uuid: uuid}), me.unlock):
            step()
            states.append(me.state)
        print(*states)
        back = bytearray(64)
        buffer.copy_to(back, stream=stream)
        stream.sync()
        assert back == b"\\7" * 64
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["CUDA_ERROR_ILLEGAL_STATE", "locked", "checkpointed", "locked", "running"]


@pytest.mark.gpu_only
def test_other_process_is_checkpointed_and_restored():
    code = """
        from cuda.core import Device
        device = Device(0); device.set_current(); stream = device.create_stream()
        buffer = device.allocate(64, stream=stream)
        buffer.fill(7, stream=stream)
        stream.sync()
        print("ready", flush=True)
        input()
        back = bytearray(64)
        buffer.copy_to(back, stream=stream)
        stream.sync()
        assert back == b"\\7" * 64
    """
    Device(0).set_current()
    other = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert other.stdout is not None and other.stdout.readline() == "ready\n"
        process = Process(other.pid)
        states = []
        try:
            for step in (lambda: process.lock(1000), process.checkpoint, process.restore, process.unlock):
                step()
                states.append(process.state)
        except RuntimeError as error:
            if states or "cannot checkpoint" not in str(error):
                raise
            pytest.skip(str(error))
        assert states == ["locked", "checkpointed", "locked", "running"]
    finally:
        other.communicate("\n")
    assert other.returncode == 0
