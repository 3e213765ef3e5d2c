# SPDX-License-Identifier: Apache-2.0
"""Renders cudart12.inc and cudart13.inc: the functions of libcudart.so.12 and .13 that call the runtime table.

The facts describe CUDA 13. WRITTEN_12 lists the functions whose signature or structs differ in CUDA 12, and WRITTEN the
ones that need more than a call of the table; src/runtime/cudart defines both kinds.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import facts
from abi_header import prototype
from render import write_if_changed

STREAM = "cudaStream_t"

WRITTEN = {
    "cudaGetDriverEntryPoint",  # depends on the version of the library
    "cudaGetDriverEntryPoint_ptsz",
    "cudaGetDriverEntryPointByVersion_ptsz",  # the stream is in the flags or in a struct
    "cudaGraphInstantiateWithParams_ptsz",
    "cudaLaunchKernelExC_ptsz",
}

WRITTEN_12 = {
    # other parameters
    "cudaGraphAddDependencies",
    "cudaGraphAddNode",
    "cudaGraphGetEdges",
    "cudaGraphNodeGetDependencies",
    "cudaGraphNodeGetDependentNodes",
    "cudaGraphRemoveDependencies",
    "cudaMemAdvise",
    "cudaMemPrefetchAsync",
    "cudaMemcpy3DBatchAsync",
    "cudaMemcpyBatchAsync",
    "cudaStreamGetCaptureInfo",
    "cudaStreamUpdateCaptureDependencies",
    # other structs
    "cudaChooseDevice",
    "cudaCreateSurfaceObject",
    "cudaCreateTextureObject",
    "cudaExternalMemoryGetMappedBuffer",
    "cudaExternalMemoryGetMappedMipmappedArray",
    "cudaGetDeviceProperties",
    "cudaGetSurfaceObjectResourceDesc",
    "cudaGetTextureObjectResourceDesc",
    "cudaGetTextureObjectResourceViewDesc",
    "cudaImportExternalMemory",
    "cudaImportExternalSemaphore",
    "cudaPointerGetAttributes",
    "cudaSignalExternalSemaphoresAsync",
    "cudaWaitExternalSemaphoresAsync",
    # another result
    "cudaRuntimeGetVersion",
}


def definition(symbol: str, function: facts.Function, *, per_thread: bool = False) -> str:
    arguments = ", ".join(
        f"per_thread({p.name})" if per_thread and p.type == STREAM else p.name for p in function.params
    )
    return f"{prototype(symbol, function)} {{ return runtime().{function.name}({arguments}); }}\n"


def render(library: facts.Library, major: int) -> Iterator[str]:
    yield f"// cudart{major}.inc: functions of libcudart.so.{major}. Rendered from api/runtime.json.\n"
    for function in library.functions.values():
        if function.since // 1000 > major or (major == 12 and function.name in WRITTEN_12):
            continue
        if function.name not in WRITTEN:
            yield definition(function.name, function)
        # _ptds functions have no stream: src/runtime/cudart/per_thread.cpp defines them
        if function.per_thread.endswith("_ptsz") and function.per_thread not in WRITTEN:
            yield definition(function.per_thread, function, per_thread=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    library = facts.load("runtime")
    for major in (12, 13):
        write_if_changed(args.out / f"cudart{major}.inc", "".join(render(library, major)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
