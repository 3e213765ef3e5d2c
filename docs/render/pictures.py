# SPDX-License-Identifier: Apache-2.0
"""`python -m render.pictures [NAME ...]` in docs/: makes the pictures of the guide's pages about tools, from real runs.

debugging.svg, schedules.svg and check.svg are sessions in a terminal; explain.png is the page in a browser (Chromium).
timeline.svg and coverage.svg were made from the tools' own pages. Run it when the output of a tool changes, and look at the result.
"""

from __future__ import annotations

import html
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GUIDE = ROOT / "docs" / "guide"
CHARACTER, LINE, MARGIN = 7.8, 18, 14  # of a monospaced font of 13 pixels
COLUMNS = 110

# What begins like this is drawn in this colour, the first that fits.
COLOURS = (
    (r"(\$|\(gdb\)) ", "#8ec07c"),
    (r".*\b(race|out of bounds|prints something else|FAILED|error)\b", "#fb7f6e"),
    (r"replay: |->|\*", "#fabd2f"),
    (r".*", "#e6e1cf"),
)


def colour_of(line: str) -> str:
    return next(colour for pattern, colour in COLOURS if re.match(pattern, line, re.IGNORECASE))


def wrapped(lines: Sequence[str]) -> list[str]:
    """Lines of at most COLUMNS characters; the rest of a longer one is indented."""
    result: list[str] = []
    for line in lines:
        while len(line) > COLUMNS:
            cut = line.rfind(" ", 40, COLUMNS)
            cut = cut if cut > 0 else COLUMNS
            result.append(line[:cut])
            line = "      " + line[cut:].lstrip()
        result.append(line)
    return result


def terminal(lines: Sequence[str]) -> str:
    """A picture of a terminal."""
    lines = wrapped([line.expandtabs() for line in lines])
    width = round(2 * MARGIN + CHARACTER * max(70, *(len(line) for line in lines)))
    height = 2 * MARGIN + LINE * len(lines)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="ui-monospace, DejaVu Sans Mono, monospace" font-size="13">',
        f'<rect width="{width}" height="{height}" rx="6" fill="#282c34"/>',
    ]
    for number, line in enumerate(lines):
        if line.strip():
            y = MARGIN + LINE * number + 13
            parts.append(
                f'<text x="{MARGIN}" y="{y}" fill="{colour_of(line)}" xml:space="preserve">{html.escape(line)}</text>'
            )
    return "\n".join([*parts, "</svg>"]) + "\n"


def program_of(page: str, name: str) -> str:
    """A program that a page shows."""
    found = re.search(rf"<!-- file: {re.escape(name)} -->\n```\w+\n(.*?)```", (GUIDE / page).read_text(), re.S)
    if found is None:
        raise SystemExit(f"docs/guide/{page} has no file {name}")
    return found.group(1)


def run(folder: Path, *command: str, **variables: str) -> list[str]:
    environment = os.environ | {"CUCORE_DEVICE": "cpu", "COLUMNS": str(COLUMNS)} | variables
    done = subprocess.run(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    return done.stdout.replace(str(folder) + "/", "").splitlines()


def debugging(folder: Path) -> None:
    """Stops in a device function, looks around, and lists the threads of the block."""
    (folder / "saxpy.py").write_text(program_of("debugging.md", "saxpy.py"))
    session = [
        "break saxpy.cu:3", "run", "backtrace", "print threadIdx", "finish", "cucore block 2 0 0", "cucore thread 17", "next", "print i",
    ]  # fmt: skip
    script = ["set confirm off", "set width 0", "set breakpoint pending on", "set print thread-events off"]
    for command in session:
        script += [f"echo (gdb) {command}\\n", command]
    (folder / "commands.gdb").write_text("\n".join(script) + "\n")
    options = ["--option=-batch", "--option=--command=commands.gdb"]
    lines = run(folder, sys.executable, "-m", "cucore", "gdb", *options, "saxpy.py")
    shown = lines[lines.index("(gdb) break saxpy.cu:3") :]
    noise = (
        "[New Thread",
        "[Thread debugging",
        "Using host libthread",
        "warning:",
        "[Switching",
        "Make breakpoint",
        "No source file",
    )
    picture = ["$ cucore gdb saxpy.py", *(line for line in shown if line.strip() and not line.startswith(noise))]
    (GUIDE / "debugging.svg").write_text(terminal(picture))


SCHEDULE = r"""
import numpy as np
from cuda.core import Device, LaunchConfig, PinnedMemoryResource, Program, ProgramOptions, launch

SOURCE = r'''
__device__ int data, flag;
extern "C" __global__ void message(int* out) {
  if (blockIdx.x == 1) {
    data = 42;
    __threadfence();
    *(volatile int*)&flag = 1;
  } else {
    while (*(volatile int*)&flag == 0) {}
    out[0] = *(volatile int*)&data;     // __threadfence() is missing above
  }
}
'''
device = Device()
device.set_current()
stream = device.create_stream()
options = ProgramOptions(lineinfo=True, name="message.cu")
kernel = Program(SOURCE, code_type="c++", options=options).compile("ptx").get_kernel("message")
buffer = PinnedMemoryResource().allocate(4, stream=stream)
launch(stream, LaunchConfig(grid=2, block=1, is_cooperative=True), kernel, buffer)
stream.sync()
print(np.from_dlpack(buffer).view(np.int32)[0])
"""


def schedules(folder: Path) -> None:
    """A reader without a fence: the events that matter."""
    (folder / "message.py").write_text(SCHEDULE)
    source = SCHEDULE.split("r'''\n")[1].split("'''")[0].splitlines()
    lines = run(folder, sys.executable, "-m", "cucore", "schedules", "message.py")
    listing = [f"{number:4}  {line}" for number, line in enumerate(["", *source], 1) if line]
    lines = [re.sub(r"\S*/bin/python\S*", "python", line) for line in lines]
    (GUIDE / "schedules.svg").write_text(terminal([*listing, "", "$ cucore schedules message.py", *lines]))


def check(folder: Path) -> None:
    """The race of the page about tests."""
    text = program_of("testing.md", "check_race.py")
    kernel = re.search(r'RACE = r"""\n(.*?)"""', text, re.S)
    if kernel is None:
        raise SystemExit("docs/guide/testing.md: check_race.py has no kernel RACE")
    (folder / "shift.py").write_text(
        "from cuda.core import *\n"
        "device = Device()\ndevice.set_current()\nstream = device.create_stream()\n"
        f"SOURCE = r'''\n{kernel.group(1)}'''\n"
        "options = ProgramOptions(lineinfo=True, name='shift.cu')\n"
        "kernel = Program(SOURCE, code_type='c++', options=options).compile('cubin').get_kernel('shift')\n"
        "launch(stream, LaunchConfig(grid=1, block=64), kernel, device.allocate(256, stream=stream))\n"
        "try:\n    stream.sync()\nexcept CUDAError as error:\n    print(error)\n"
    )
    listing = [f"{number:4}  {line}" for number, line in enumerate(["", *kernel.group(1).splitlines()], 1) if line]
    lines = run(folder, sys.executable, "shift.py", CUCORE_CHECK="race")
    (GUIDE / "check.svg").write_text(terminal([*listing, "", "$ CUCORE_CHECK=race python shift.py", *lines]))


def explain(folder: Path) -> None:
    """The page of the guide's kernel."""
    spec = importlib.util.spec_from_file_location("browser", ROOT / "tests" / "python" / "pages" / "browser.py")
    if spec is None or spec.loader is None:
        raise SystemExit("tests/python/pages/browser.py is missing")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (folder / "mix.cu").write_text(program_of("explain.md", "mix.cu"))
    run(folder, sys.executable, "-m", "cucore", "explain", "mix.cu", "--html", "mix.html")
    page = folder / "mix.html"
    page.write_text(page.read_text().replace(f"{folder}/", ""))
    program = module.executable()
    if program is None:
        raise SystemExit("explain.png needs Chromium: apt-get install chromium")
    with module.Browser(program) as browser:
        browser.resize(1000, 620)
        browser.open(page)
        browser.evaluate("document.querySelectorAll('tr')[5].scrollIntoView(); scrollBy(0, -27)")
        browser.screenshot(GUIDE / "explain.png")


PICTURES: dict[str, Callable[[Path], None]] = {
    "debugging": debugging,
    "schedules": schedules,
    "check": check,
    "explain": explain,
}


def main(names: Sequence[str]) -> None:
    for name in names or PICTURES:
        with tempfile.TemporaryDirectory(prefix="cucore-picture-") as folder:
            PICTURES[name](Path(folder))
        print(name)


if __name__ == "__main__":
    main(sys.argv[1:])
