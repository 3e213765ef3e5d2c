# SPDX-License-Identifier: Apache-2.0
"""pytest --cuda-schedules=N: runs each test with N random schedules of kernel threads (docs/guide/schedules.md)."""

from __future__ import annotations

import os
from typing import cast

import pytest
from _pytest.runner import runtestprotocol

from .schedules import VARIABLE


class EverySeed:
    """A pytest plugin that runs each test with seeds 0, 1, ... until one fails. Each run has new function fixtures."""

    def __init__(self, seeds: int) -> None:
        self.seeds = seeds
        set_seed(0)  # kernels that are loaded later have schedule points

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        marker = item.get_closest_marker("cuda_schedules")
        seeds = int(marker.args[0]) if marker and marker.args else self.seeds
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        reports: list[pytest.TestReport] = []
        for seed in range(seeds):
            set_seed(seed)
            last = seed == seeds - 1
            # With the parent as next item, pytest tears down only the fixtures of the test, not those of wider scopes.
            following = nextitem if last else cast("pytest.Item", item.parent)
            reports = runtestprotocol(item, log=False, nextitem=following)
            if any(report.failed for report in reports):
                advice = f"fails with schedule seed {seed}; replay: {VARIABLE}=seed:{seed} pytest '{item.nodeid}'"
                for report in reports:
                    if report.failed:
                        report.sections.append(("cucore schedules", advice))
            if not all(report.passed for report in reports):
                if not last:  # fixtures of the module and the session that the next test does not use
                    item.session._setupstate.teardown_exact(nextitem)
                break
        for report in reports:
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True


def set_seed(seed: int) -> None:
    """Sets the seed of subsequent launches."""
    os.environ[VARIABLE] = f"seed:{seed}"
