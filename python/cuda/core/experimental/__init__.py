"""The older name of cuda.core: the same objects."""

import cuda.core as _core_package


def __getattr__(name):  # type: ignore[no-untyped-def]
    value = getattr(_core_package, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return dir(_core_package)
