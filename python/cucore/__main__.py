# SPDX-License-Identifier: Apache-2.0
"""The `cucore` command: installation report, diagnosis, programs on the CPU device, API coverage, debugging, a demo."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from . import __version__

MOST_DEVICES = 64


def device_number(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MOST_DEVICES:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 1 to {MOST_DEVICES}")
    return int(text)


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 1")
    return int(text)


def _add_coverage_options(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--data", metavar="FOLDER", default=".cucore_coverage", help="where the counts are (.cucore_coverage)"
    )
    command.add_argument("--html", metavar="FOLDER", help="write HTML pages with the sources")
    command.add_argument("--lcov", metavar="FILE", help="write a tracefile of lcov")
    command.add_argument("--xml", metavar="FILE", help="write a report of Cobertura")
    command.add_argument("--json-file", metavar="FILE", help="write JSON")
    command.add_argument("--coverage-data", metavar="FILE", help="write data that `coverage combine` reads")
    command.add_argument("--branch", action="store_true", help="with branches in that data, as `coverage run --branch`")
    command.add_argument("--omit", metavar="PATTERN", action="append", default=[], help="leave out files of this name")
    command.add_argument("--fail-under", metavar="PERCENT", type=float, help="exit with 2 below this coverage")


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="cucore", description=__doc__)
    top.add_argument("--version", action="version", version=f"cucore {__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)

    info = commands.add_parser("info", help="driver, devices and toolkit libraries, and why something was not found")
    info.add_argument("--why", metavar="NAME", help="list every place looked at for one library")
    what = info.add_mutually_exclusive_group()
    what.add_argument(
        "--cmake", action="store_const", dest="folder", const="cmake", help="print the folder for CMAKE_PREFIX_PATH"
    )
    what.add_argument(
        "--pkg-config",
        action="store_const",
        dest="folder",
        const="pkgconfig",
        help="print the folder for PKG_CONFIG_PATH",
    )
    info.add_argument("--json", action="store_true", help="print JSON for programs")

    doctor = commands.add_parser(
        "doctor", help="find what keeps programs from working, with the command that repairs it"
    )
    doctor.add_argument("--json", action="store_true", help="print JSON for programs")

    run = commands.add_parser("run", help="run any program with the CPU device in place of libcuda.so.1")
    where = run.add_mutually_exclusive_group()
    where.add_argument("--cpu", action="store_const", dest="device", const="cpu", default="cpu", help="(default)")
    where.add_argument("--gpu", action="store_const", dest="device", const="gpu", help="insist on the GPU")
    run.add_argument("--devices", type=device_number, metavar="N", help=f"present N CPU devices, 1 to {MOST_DEVICES}")
    run.add_argument(
        "--cudart",
        type=int,
        choices=(12, 13),
        help="preload our CUDA runtime library of this version, for libraries that bring an RPATH to NVIDIA's",
    )
    run.add_argument("program", nargs=argparse.REMAINDER, metavar="PROGRAM ...", help="a .py file or any executable")

    schedules = commands.add_parser(
        "schedules",
        help="run a program with random orders of the threads of its kernels, and find the order that fails",
    )
    schedules.add_argument("--seeds", type=positive, default=100, metavar="N", help="number of orders (default 100)")
    schedules.add_argument("--first", type=int, default=0, metavar="SEED", help="the first seed (default 0)")
    schedules.add_argument(
        "--no-reduce", action="store_false", dest="reduce", help="do not look for the switches that matter"
    )
    schedules.add_argument(
        "program", nargs=argparse.REMAINDER, metavar="PROGRAM ...", help="a .py file or any executable"
    )

    gdb = commands.add_parser("gdb", help="debug the kernels of a program with GDB, on the CPU device")
    gdb.add_argument(
        "--extension", action="store_true", help="print the file with the commands, for `source` in a GDB that runs"
    )
    gdb.add_argument(
        "--option", action="append", default=[], metavar="OPTION", help="an option for GDB, such as --option=-batch"
    )
    gdb.add_argument("program", nargs=argparse.REMAINDER, metavar="PROGRAM ...", help="a .py file or any executable")

    explain = commands.add_parser("explain", help="source, PTX and vector code of a kernel, and why it is slow")
    explain.add_argument("file", help="a CUDA C++ or a PTX file")
    explain.add_argument(
        "--name", default="", metavar="KERNEL", help="the kernel, also as k<float> (default: the first)"
    )
    explain.add_argument(
        "--block", default="256", metavar="SHAPE", help="the shape of a block, such as 128 or 16x16 (default 256)"
    )
    explain.add_argument("--html", metavar="FILE", help="write a page with all three columns")
    explain.add_argument("--code", action="store_true", help="print PTX and vector code below each line")
    explain.add_argument("--json", action="store_true", help="print JSON for programs")
    explain.add_argument("-I", "--include", action="append", default=[], metavar="FOLDER", help="a folder of headers")
    explain.add_argument("--arch", metavar="SM", help="the architecture for NVRTC, such as sm_90")

    coverage = commands.add_parser("coverage", help="how much of each API works on the CPU device")
    coverage.add_argument(
        "--missing", action="store_true", help="name the functions that are not there, with the reason"
    )
    coverage.add_argument("--json", action="store_true", help="print JSON for programs")
    coverage.add_argument("--page", action="store_true", help="print the whole page, as Markdown")

    counted = commands.add_parser("coverage-run", help="run a program and count the lines and branches of its kernels")
    _add_coverage_options(counted)
    counted.add_argument("--append", action="store_true", help="add to the counts that are in the folder")
    counted.add_argument(
        "program", nargs=argparse.REMAINDER, metavar="PROGRAM ...", help="a .py file or any executable"
    )
    report = commands.add_parser(
        "coverage-report", help="report what coverage-run or pytest --cuda-coverage has counted"
    )
    _add_coverage_options(report)
    report.add_argument("--json", action="store_true", help="print JSON for programs")

    traced = commands.add_parser("trace", help="run a program and record a timeline of API calls, kernels and copies")
    traced.add_argument("-o", "--output", metavar="FILE", default="trace.json", help="the timeline (trace.json)")
    traced.add_argument("--html", metavar="FILE", help="write a page with a picture of threads and streams")
    traced.add_argument("--quiet", action="store_true", help="print no summary")
    traced.add_argument("program", nargs=argparse.REMAINDER, metavar="PROGRAM ...", help="a .py file or any executable")

    demo = commands.add_parser("demo", help="compile a CUDA C++ kernel, run it, check it")
    demo.add_argument("--json", action="store_true", help="print JSON for programs")

    completion = commands.add_parser("completion", help="print a script that completes this command in a shell")
    completion.add_argument("shell", choices=("bash", "zsh", "fish"))
    return top


def command(arguments: argparse.Namespace) -> int:
    if arguments.command == "info":
        from .info import folder, info

        if arguments.folder:
            return folder(arguments.folder, arguments.json)
        return info(why=arguments.why, as_json=arguments.json)
    if arguments.command == "doctor":
        from .doctor import doctor

        return doctor(as_json=arguments.json)
    if arguments.command == "run":
        from .run import run

        return run(arguments.program, device=arguments.device, devices=arguments.devices, cudart=arguments.cudart)
    if arguments.command == "schedules":
        from .schedules import schedules

        return schedules(arguments.program, arguments.seeds, arguments.first, arguments.reduce)
    if arguments.command == "gdb":
        from .gdb.start import gdb

        return gdb(arguments.program, options=arguments.option, print_extension=arguments.extension)
    if arguments.command == "explain":
        from . import explain

        try:
            block = explain.shape_of(arguments.block)
        except ValueError as error:
            from . import terminal

            terminal.complain("explain", str(error))
            return 2
        return explain.command(
            arguments.file,
            name=arguments.name,
            block=block,
            page=arguments.html,
            code=arguments.code,
            as_json=arguments.json,
            includes=arguments.include,
            arch=arguments.arch,
        )
    if arguments.command == "coverage":
        from .coverage import coverage

        return coverage(missing=arguments.missing, as_json=arguments.json, page=arguments.page)
    if arguments.command in ("coverage-run", "coverage-report"):
        from .coverage_run import Outputs, coverage_report, coverage_run

        names = ("html", "lcov", "xml", "json_file", "coverage_data", "branch", "omit", "fail_under")
        outputs = Outputs(**{name: getattr(arguments, name) for name in names})
        if arguments.command == "coverage-run":
            return coverage_run(arguments.program, arguments.data, arguments.append, outputs)
        return coverage_report(arguments.data, arguments.json, outputs)
    if arguments.command == "trace":
        from .trace import trace

        return trace(arguments.program, arguments.output, arguments.html, arguments.quiet)
    if arguments.command == "completion":
        from .completion import completion

        return completion(parser(), arguments.shell)
    from .demo import demo

    return demo(as_json=arguments.json)


def main(argv: Sequence[str] | None = None) -> int:
    arguments = parser().parse_args(argv)
    try:
        status = command(arguments)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # the reader of the pipe has exited (`cucore info | head`): not an error
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + 13
    except KeyboardInterrupt:
        return 128 + 2
    except ImportError as error:  # NVIDIA's packages have overwritten this one: the message has the remedy
        if sys.flags.dev_mode:
            raise
        from . import terminal

        terminal.complain(arguments.command, f"{error}\ncucore doctor looks for the reason.")
        return 1


if __name__ == "__main__":
    sys.exit(main())
