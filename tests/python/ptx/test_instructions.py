"""Every instruction form of tests/ptx gives the results a GPU gave, and those an exact model gives.

CUCORE_DEVICE=gpu runs the same on the GPU; CUCORE_DRIVER names another driver library.
"""

from __future__ import annotations

import functools
import os

import numpy as np
import pytest
from ptxsuite import recording, reference
from ptxsuite.compare import mismatches
from ptxsuite.device import Device, run_batch
from ptxsuite.forms import Form, batches, families

FAMILIES = families()
BATCHES = {form.id: (family, k) for family, forms in FAMILIES.items() for k, b in enumerate(batches(forms)) for form in b}


@functools.cache
def device() -> Device:
    return Device()


@functools.cache
def recorded(family: str) -> dict[str, bytes | str]:
    return recording.read(family, FAMILIES[family])


@functools.cache
def results(family: str, batch: int) -> dict[str, bytes | str]:
    return run_batch(device(), batches(FAMILIES[family])[batch])


def expectations(form: Form) -> list[tuple[str, bytes]]:
    """Who says what the results must be: the GPU, the exact model, or both."""
    found = []
    gpu = recorded(form.family).get(form.id)
    if isinstance(gpu, bytes):
        found.append(("the GPU's", gpu))
    if (model := reference.results(form)) is not None:
        found.append(("the model's", model))
    return found


@pytest.mark.parametrize("form", [pytest.param(f, id=f.id) for forms in FAMILIES.values() for f in forms])
def test_instruction(form: Form) -> None:
    expected = expectations(form)
    if isinstance(recorded(form.family).get(form.id), str):
        pytest.skip("the GPU has no such form")
    got = results(*BATCHES[form.id])[form.id]
    assert isinstance(got, bytes), got
    if not expected:
        pytest.skip("runs, but nothing is recorded for it yet and it has no model")
    for whose, data in expected:
        wrong = mismatches(form, data, got)
        assert not wrong, f"not {whose} results\n{wrong}"


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_the_models_agree_with_the_gpu(family: str) -> None:
    """No device: the recorded results against the exact models."""
    gpu = recorded(family)
    if not gpu:
        pytest.skip("nothing recorded")
    wrong = []
    for form in FAMILIES[family]:
        model, data = reference.results(form), gpu.get(form.id)
        if model is not None and isinstance(data, bytes):
            wrong.append(mismatches(form, data, model))
    assert not any(wrong), "\n".join(filter(None, wrong))


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_every_form_is_recorded(family: str) -> None:
    """A row that was changed needs record.py on the GPU again."""
    if not (recording.FOLDER / f"{family}.xz").exists():
        pytest.skip("nothing recorded")
    missing = [form.id for form in FAMILIES[family] if form.id not in recorded(family)]
    assert not missing


def test_the_comparison_notices_a_wrong_bit() -> None:
    form = FAMILIES["float"][0]
    good = reference.results(form)
    assert good is not None
    assert not mismatches(form, good, good)
    bad = bytearray(good)
    bad[9] ^= 1
    assert "1 of" in mismatches(form, good, bytes(bad))


def test_values_do_not_depend_on_the_machine() -> None:
    """The seeds give these values everywhere, or the recorded results would mean nothing."""
    form = next(form for form in FAMILIES["float"] if form.id == "fma.rn.f32")
    assert recording.digest(form) == os.environ.get("CUCORE_NO_SUCH", recording.digest(form))
    from ptxsuite.values import Random

    assert [hex(int(x)) for x in Random(1).bits(2)] == ["0xbeeb8da1658eec67", "0xf893a2eefb32555e"]
    assert np.array_equal(Random(5).integers(0, 10, 4), Random(5).integers(0, 10, 4))
