# SPDX-License-Identifier: Apache-2.0
"""Every instruction form of tests/ptx gives the recorded results of a GPU, or those of an exact model if none are recorded.

CUCORE_DEVICE=gpu runs the forms on the GPU; CUCORE_DRIVER selects another driver library.
"""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import re

import pytest
from ptxsuite import recording, reference
from ptxsuite.compare import mismatches
from ptxsuite.device import Device, run_batch
from ptxsuite.forms import Form, Operand, batches, families
from ptxsuite.values import Random, inputs

FAMILIES = families()
BATCHES = {
    f.id: (family, k) for family, forms in FAMILIES.items() for k, batch in enumerate(batches(forms)) for f in batch
}


ON_CPU = os.environ.get("CUCORE_DEVICE", "cpu") == "cpu"
F64_ARITHMETIC = {
    form.id
    for forms in FAMILIES.values()
    for form in forms
    if ON_CPU and re.search(r"\b((add|sub|mul)(\.rn)?|(fma|mad|div|sqrt)\.rn|rsqrt\.approx|min|max)\.f64", form.body)
}
# x86-64 produces the f64 NaNs of a GPU, but selects the other of two NaNs unless CUCORE_CPU_NAN=exact (docs/design/engine.md).
HOST_NANS = F64_ARITHMETIC if platform.machine() == "x86_64" else set()


@functools.cache
def device() -> Device:
    return Device()


@functools.cache
def recorded(family: str) -> dict[str, bytes | str]:
    return recording.read(family, FAMILIES[family])


@functools.cache
def results(family: str, batch: int) -> dict[str, bytes | str]:
    return run_batch(device(), batches(FAMILIES[family])[batch])


@pytest.mark.parametrize("form", [pytest.param(f, id=f.id) for forms in FAMILIES.values() for f in forms])
def test_form_matches_the_recorded_or_modelled_result(form: Form) -> None:
    gpu = recorded(form.family).get(form.id)
    if isinstance(gpu, str):
        pytest.skip("the GPU has no such form")
    got = results(*BATCHES[form.id])[form.id]
    assert isinstance(got, bytes), got
    if gpu is not None:
        wrong = mismatches(form, gpu, got, any_nan="nan" in form.options or form.id in HOST_NANS)
        if (reason := form.options.get("differs")) and os.environ.get("CUCORE_DEVICE", "cpu") == "cpu":
            assert wrong, f"this now gives the GPU's results: drop its mark `differs {reason}`"
            pytest.xfail(reason)
        assert not wrong, f"not the GPU's results\n{wrong}"
    elif (model := reference.results(form)) is not None:
        wrong = mismatches(form, model, got, any_nan=True)
        assert not wrong, f"not the model's results\n{wrong}"
    else:
        pytest.skip("it runs, but nothing is recorded for it and it has no model")


@pytest.mark.skipif(not ON_CPU, reason="about the CPU device alone")
@pytest.mark.parametrize(
    "family", sorted({form.family for forms in FAMILIES.values() for form in forms if form.id in F64_ARITHMETIC})
)
def test_exact_mode_gives_the_f64_nans_of_the_gpu(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUCORE_CPU_NAN", "exact")  # read when a module is loaded
    forms = [
        form
        for form in FAMILIES[family]
        if form.id in F64_ARITHMETIC and isinstance(recorded(family).get(form.id), bytes)
    ]
    for batch in batches(forms):
        for name, got in run_batch(device(), batch).items():
            assert isinstance(got, bytes), got
            form, gpu = next(form for form in batch if form.id == name), recorded(family)[name]
            assert isinstance(gpu, bytes) and not mismatches(form, gpu, got)


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_models_match_the_recorded_results(family: str) -> None:
    """Compares the recorded results with the exact models, without a device. The models do not determine which NaN."""
    gpu = recorded(family)
    if not gpu:
        pytest.skip("nothing recorded")
    wrong = []
    for form in FAMILIES[family]:
        model, data = reference.results(form), gpu.get(form.id)
        if model is not None and isinstance(data, bytes) and "manual" not in form.options:
            wrong.append(mismatches(form, model, data, any_nan=True))
    assert not any(wrong), "\n".join(filter(None, wrong))


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_every_form_is_recorded_or_has_a_model(family: str) -> None:
    """A changed row must be recorded again on a GPU with record.py."""
    if not (recording.FOLDER / f"{family}.xz").exists():
        pytest.skip("nothing recorded")
    missing = [f.id for f in FAMILIES[family] if f.id not in recorded(family) and reference.results(f) is None]
    assert not missing


def test_comparison_detects_a_wrong_bit() -> None:
    form = FAMILIES["float"][0]
    good = reference.results(form)
    assert good is not None
    assert not mismatches(form, good, good)
    bad = bytearray(good)
    bad[9] ^= 1
    assert "1 of" in mismatches(form, good, bytes(bad))


def test_values_do_not_depend_on_the_machine() -> None:
    """The values must be equal on all machines, otherwise the recorded results would be invalid."""
    assert [hex(int(x)) for x in Random(1).bits(2)] == ["0xbeeb8da1658eec67", "0xf893a2eefb32555e"]
    form = Form("", "", [], [Operand("f32"), Operand("s64"), Operand("f16x2"), Operand("u32", "shift")], "")
    assert hashlib.sha256(inputs(form).tobytes()).hexdigest()[:16] == "d3c2b3df6c472afa"
