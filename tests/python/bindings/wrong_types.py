# SPDX-License-Identifier: Apache-2.0
"""Calls every function of a module with arguments of wrong types; runs in a separate process for test_wrong_types.py.

    python wrong_types.py MODULE SEED

Prints the function's name before each call, so that the output of a crash names it. Passes only objects, never integers
that could be used as addresses.
"""

from __future__ import annotations

import importlib
import inspect
import os
import random
import sys
import warnings

ON_GPU = os.environ.get("CUCORE_DEVICE") == "gpu"


class Odd:
    """An object whose __index__ does not return a number."""

    def __index__(self) -> int:
        raise ValueError("no number")


class Short:
    """A sequence whose __len__ is wrong."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> object:
        raise IndexError(index)


def candidates(module: object) -> list[object]:
    made = [
        "text", b"bytes", bytearray(b"four"), 1.5, float("nan"), object(), Odd(), Short(), [], [object()], ["a", 2.5], (), {},
        -1, 1 << 70, -(1 << 70), lambda *args: None, type, Ellipsis, True, memoryview(b"12345678")[::2], (1, 2, 3),
        ((1,), (None,)), (("a",), (int,)),
    ]  # fmt: skip
    # If handles are ints that NVIDIA's driver dereferences, a wrong number is a wrong address.
    if ON_GPU or not module.__name__.endswith(("driver", "runtime", "nvrtc", "raising")):
        made = [value for value in made if not (isinstance(value, int) and abs(value) < 1 << 64)]
    for name in ("CUstream", "CUevent", "CUDA_MEMCPY3D", "CUuuid", "cudaMemcpy3DParms", "cudaEvent_t", "nvrtcProgram"):
        if hasattr(module, name):
            made.append(getattr(module, name)())
    return made


def names_it(text: str, function: str, parameters: list[str]) -> bool:
    """True if the message names the function, and the parameter or the number of parameters."""
    if not text.startswith(f"{function}("):
        return False
    rest = text.removeprefix(f"{function}()").lstrip(": ")
    return rest.startswith(("takes", "missing required argument", *parameters))


def main() -> int:
    module = importlib.import_module(sys.argv[1])
    choose = random.Random(int(sys.argv[2]))
    warnings.simplefilter("ignore")
    values = candidates(module)
    called = raised = 0
    for name in sorted(getattr(module, "__all__", None) or dir(module)):
        if name.startswith("_") or (ON_GPU and "VDPAU" in name):  # NVIDIA's driver calls any function pointer
            continue
        function = getattr(module, name)
        if not callable(function) or inspect.isclass(function):
            continue
        parameters = list(inspect.signature(function).parameters)
        arity = len(parameters)
        for _ in range(6 if arity else 1):
            count = arity if choose.random() < 0.9 else choose.randrange(arity + 3)
            arguments = [choose.choice(values) for _ in range(count)]
            print(name, flush=True)
            called += 1
            try:
                function(*arguments)
            except Exception as error:
                raised += 1
                text = str(error)
                assert text, f"{name} raised {type(error).__name__} without a word"
                if inspect.isbuiltin(function) and isinstance(error, (TypeError, OverflowError)):
                    assert names_it(text, name, parameters), f"{name}{tuple(arguments)!r}: {text}"
    print(f"done {called} {raised}", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
