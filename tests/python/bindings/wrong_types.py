"""Calls every function of a module with arguments of wrong types, in a process of its own; see test_wrong_types.py.

    python wrong_types.py MODULE SEED

Writes the function's name to standard output before each call, so that a crash names its function. Only objects are
passed, never integers that could be taken for addresses.
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
    """Claims to be a number and is not."""

    def __index__(self) -> int:
        raise ValueError("no number")


class Short:
    """A sequence whose length lies."""

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
    # Where handles are ints, and where NVIDIA's driver follows them, a wrong number is a wrong address.
    if ON_GPU or not module.__name__.endswith(("driver", "runtime", "nvrtc", "raising")):
        made = [value for value in made if not (isinstance(value, int) and abs(value) < 1 << 64)]
    for name in ("CUstream", "CUevent", "CUDA_MEMCPY3D", "CUuuid", "cudaMemcpy3DParms", "cudaEvent_t", "nvrtcProgram"):
        if hasattr(module, name):
            made.append(getattr(module, name)())
    return made


def names_it(text: str, function: str, parameters: list[str]) -> bool:
    """The message says which function, and which parameter or how many there are."""
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
        if name.startswith("_") or (ON_GPU and "VDPAU" in name):  # NVIDIA's driver calls what it is given
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
