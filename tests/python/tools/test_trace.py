# SPDX-License-Identifier: Apache-2.0
"""The timeline: what a program does is in it, once, at the right place and in the right order."""

from __future__ import annotations

import html.parser
import itertools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.cpu_only

PROGRAM = r"""
import numpy as np
from cuda.core import Device, LaunchConfig, Program, launch
device = Device()
device.set_current()
SOURCE = 'template <int n> __global__ void add(int* p) { p[threadIdx.x + (blockIdx.x + blockIdx.y * gridDim.x) * blockDim.x] += n; }'
code = Program(SOURCE, "c++").compile("cubin", name_expressions=("add<1>", "add<2>"))
first, second = device.create_stream(), device.create_stream()
buffer = device.allocate(4096, stream=first)
host = np.zeros(1024, np.int32)
buffer.copy_from(host, stream=first)
for _ in range(5):
    launch(first, LaunchConfig(grid=(4, 2), block=64), code.get_kernel("add<1>"), buffer)
second.wait(first)
launch(second, LaunchConfig(grid=8, block=128), code.get_kernel("add<2>"), buffer)
buffer.copy_to(host, stream=second)
second.sync()
assert (host[:512] == 7).all()
"""


def traced(folder: Path, program: str, *options: str, status: int = 0, **variables: str) -> list[dict]:
    (folder / "program.py").write_text(program)
    command = [sys.executable, "-m", "cucore", "trace", "-o", "trace.json", *options, "program.py"]
    done = subprocess.run(command, cwd=folder, env={**os.environ, **variables}, capture_output=True, text=True)
    assert done.returncode == status, done.stdout + done.stderr
    (folder / "said").write_text(done.stderr)
    return json.loads((folder / "trace.json").read_text())["traceEvents"]


def spans(events: list[dict], category: str) -> list[dict]:
    return sorted((e for e in events if e["ph"] == "X" and e["cat"] == category), key=lambda e: e["ts"])


def names_of_tracks(events: list[dict]) -> dict[tuple[int, int], str]:
    return {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "thread_name"}


def test_kernels_copies_and_calls_are_recorded(tmp_path: Path) -> None:
    events = traced(tmp_path, PROGRAM)
    kernels = spans(events, "kernel")
    assert [k["name"] for k in kernels] == ["void add<1>(int*)"] * 5 + ["void add<2>(int*)"]
    assert kernels[0]["args"]["grid"] == "4 x 2 x 1" and kernels[0]["args"]["threads"] == 512
    copies = spans(events, "copy")
    assert [(c["name"], c["args"]["bytes"]) for c in copies] == [
        ("copy host to device", 4096),
        ("copy device to host", 4096),
    ]
    calls = [call["name"] for call in spans(events, "api")]
    assert sum(name.startswith("cuLaunchKernel") for name in calls) == 6
    assert all(name.startswith("cu") for name in calls), sorted(set(calls))
    assert spans(events, "wait"), "the wait of the second stream for the first"
    compiled = [span["name"] for span in spans(events, "compile")]
    assert "parse and translate PTX" in compiled and "link" in compiled
    assert any(name.startswith("NVRTC") for name in compiled)


def test_spans_of_a_stream_do_not_overlap_and_follow_their_launch(tmp_path: Path) -> None:
    events = traced(tmp_path, PROGRAM)
    tracks: dict[tuple[int, int], list[dict]] = {}
    names = names_of_tracks(events)
    for event in (e for e in events if e["ph"] == "X"):
        assert (event["pid"], event["tid"]) in names
        tracks.setdefault((event["pid"], event["tid"]), []).append(event)
    streams = {key: track for key, track in tracks.items() if "stream" in names[key]}
    assert len(streams) >= 2
    for track in streams.values():
        track.sort(key=lambda e: e["ts"])
        for before, after in itertools.pairwise(track):
            assert before["ts"] + before["dur"] <= after["ts"] + 0.0015  # times are rounded to nanoseconds
    begun = {e["id"]: e["ts"] for e in events if e["ph"] == "s"}
    ended = {e["id"]: e["ts"] for e in events if e["ph"] == "f"}
    assert set(ended) <= set(begun) and len(ended) >= 8
    assert all(begun[number] <= time for number, time in ended.items())


def test_stages_of_compilation_are_recorded_without_the_cache(tmp_path: Path) -> None:
    events = traced(tmp_path, PROGRAM, CUCORE_CPU_CACHE="0")
    stages = {span["name"] for span in spans(events, "compile")}
    assert {"stage kernel", "stage vector", "stage block", "stage codegen"} <= stages


def test_memory_is_a_counter(tmp_path: Path) -> None:
    events = traced(tmp_path, PROGRAM)
    values = [e["args"]["bytes"] for e in events if e["ph"] == "C" and e["name"] == "memory of pools in use"]
    assert max(values) >= 4096


GRAPH = r"""
import numpy as np
from cuda.core import Device, LaunchConfig, Program, launch
device = Device()
device.set_current()
SOURCE = 'extern "C" __global__ void add(int* p, int n) { p[threadIdx.x] += n; }'
kernel = Program(SOURCE, "c++").compile("cubin").get_kernel("add")
stream = device.create_stream()
buffer = device.allocate(4096, stream=stream)
builder = device.create_graph_builder().begin_building()
for n in range(3):
    launch(builder, LaunchConfig(grid=1, block=32), kernel, buffer, np.int32(n))
graph = builder.end_building().complete()
graph.launch(stream)
graph.launch(stream)
stream.sync()
"""


def test_nodes_of_graphs_lie_inside_their_launch(tmp_path: Path) -> None:
    events = traced(tmp_path, GRAPH)
    launches = spans(events, "graph")
    nodes = spans(events, "kernel")
    assert [graph["args"]["nodes"] for graph in launches] == [3, 3]
    assert len(nodes) == 6
    for number, node in enumerate(nodes):
        around = launches[number // 3]
        assert around["ts"] - 0.002 <= node["ts"] and node["ts"] + node["dur"] <= around["ts"] + around["dur"] + 0.002


def test_processes_of_a_program_are_merged(tmp_path: Path) -> None:
    (tmp_path / "child.py").write_text(PROGRAM)
    program = PROGRAM + "import subprocess, sys\nsubprocess.run([sys.executable, 'child.py'], check=True)\n"
    events = traced(tmp_path, program)
    kernels = spans(events, "kernel")
    assert len(kernels) == 12 and len({kernel["pid"] for kernel in kernels}) == 2
    assert max(k["ts"] for k in kernels[:6]) < min(k["ts"] for k in kernels[6:])  # one clock


def test_a_file_holds_one_process_and_children_get_their_own(tmp_path: Path) -> None:
    (tmp_path / "child.py").write_text(PROGRAM)
    (tmp_path / "program.py").write_text(
        PROGRAM + "import subprocess, sys\nsubprocess.run([sys.executable, 'child.py'], check=True)\n"
    )
    environment = {**os.environ, "CUCORE_DEVICE": "cpu", "CUCORE_TRACE": "one.json"}
    subprocess.run([sys.executable, "program.py"], cwd=tmp_path, env=environment, check=True)
    from cucore.trace import read_events

    files = sorted(path.name for path in tmp_path.glob("one.json*"))
    assert len(files) == 2 and files[0] == "one.json"
    for name in files:
        assert len(spans(read_events(tmp_path / name), "kernel")) == 6


def test_a_trace_that_was_cut_off_can_be_read(tmp_path: Path) -> None:
    from cucore.trace import read_events

    (tmp_path / "program.py").write_text(PROGRAM)
    environment = {**os.environ, "CUCORE_DEVICE": "cpu", "CUCORE_TRACE": str(tmp_path / "whole.json")}
    subprocess.run([sys.executable, "program.py"], cwd=tmp_path, env=environment, check=True)
    text = (tmp_path / "whole.json").read_text()
    whole = read_events(tmp_path / "whole.json")
    for length in (0, 1, 2, 50, len(text) // 2, len(text) - 3):
        (tmp_path / "part.json").write_text(text[:length])
        part = read_events(tmp_path / "part.json")
        assert part == whole[: len(part)]


def test_calls_at_exit_and_forked_children_do_no_harm(tmp_path: Path) -> None:
    program = (
        "import atexit, ctypes, os\nfrom cuda.bindings import driver\ndriver.cuInit(0)\n"
        "for _ in range(3): driver.cuDeviceGetCount()\n"
        "getattr(ctypes.CDLL(None), '__cxa_atexit')(ctypes.CDLL('libcuda.so.1').cuCtxSynchronize, None, None)\n"
        "atexit.register(driver.cuDeviceGetCount)\n"
        "child = os.fork()\n"
        "if child == 0: raise SystemExit(0)\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
    )
    calls = [span["name"] for span in spans(traced(tmp_path, program), "api")]
    assert calls.count("cuDeviceGetCount") == 4


def test_the_status_of_the_program_is_kept(tmp_path: Path) -> None:
    traced(tmp_path, "raise SystemExit(7)\n", status=7)
    traced(tmp_path, f"import os\nos.kill(os.getpid(), {int(signal.SIGTERM)})\n", status=128 + signal.SIGTERM)
    assert "nothing was recorded" in (tmp_path / "said").read_text()


def test_failed_calls_have_their_result(tmp_path: Path) -> None:
    program = "from cuda.bindings import driver\ndriver.cuInit(0)\nassert driver.cuDeviceGet(99)[0] == 101\n"
    events = traced(tmp_path, program)
    (call,) = [span for span in spans(events, "api") if span["name"] == "cuDeviceGet"]
    assert call["args"]["result"] == 101


def test_programs_that_link_with_the_driver_are_recorded(tmp_path: Path) -> None:
    program = (
        "import ctypes\ncuda = ctypes.CDLL('libcuda.so.1')\ncuda.cuInit(0)\nn = ctypes.c_int()\n"
        "assert cuda.cuDeviceGetCount(ctypes.byref(n)) == 0\n"
    )
    assert [span["name"] for span in spans(traced(tmp_path, program), "api")] == ["cuDeviceGetCount"]


NVTX = """
import nvtx
with nvtx.annotate("outer", domain="mine"):
    with nvtx.annotate("inner"):
        pass
nvtx.mark("here")
number = nvtx.start_range("across")
nvtx.end_range(number)
"""


def test_nvtx_ranges_are_recorded(tmp_path: Path) -> None:
    pytest.importorskip("nvtx")
    events = traced(tmp_path, NVTX)
    ranges = {span["name"]: span for span in spans(events, "nvtx")}
    outer, inner = ranges["outer"], ranges["inner"]
    assert outer["args"]["domain"] == "mine"
    assert outer["ts"] <= inner["ts"] and inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"]
    assert [e["name"] for e in events if e["ph"] == "i" and e["cat"] == "nvtx"] == ["here"]
    assert [e["ph"] for e in events if e.get("cat") == "nvtx" and e["ph"] in "be"] == ["b", "e"]


class _Page(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.rects: list[dict[str, str | None]] = []
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "rect":
            self.rects.append(values)
        if tag not in ("meta", "link", "br"):
            self.open.append(tag)
        for name in ("src", "href"):
            assert not str(values.get(name, "")).startswith(("http", "//")), "the page needs no network"

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_draws_every_span_and_needs_no_network(tmp_path: Path) -> None:
    events = traced(tmp_path, PROGRAM, "--html", "page.html")
    page = _Page()
    page.feed((tmp_path / "page.html").read_text())
    assert page.open == []
    drawn = sorted(str(rect["data-name"]) for rect in page.rects)
    assert drawn == sorted(event["name"] for event in events if event["ph"] == "X")
    for rect in page.rects:
        assert 0 <= float(str(rect["x"])) <= 10000.001 and float(str(rect["width"])) > 0
    assert "void add<1>(int*)" in page.text and "stream" in page.text


def test_the_summary_has_totals_by_kernel_and_copy(tmp_path: Path) -> None:
    traced(tmp_path, PROGRAM)
    said = (tmp_path / "said").read_text()
    row = next(line for line in said.splitlines() if line.endswith("void add<1>(int*)"))
    assert row.split()[3] == "5"  # share, total, unit, calls
    assert "copy host to device" in said and "4.0 KiB" in said
    traced(tmp_path, PROGRAM, "--quiet")
    assert "add<1>" not in (tmp_path / "said").read_text()
