"""A plugin of pytest that notes which lines each test executes: `-p tests.mutation.noting`.

The lines go into coverage's data, with the test's name as their context; those of a fixture that several
tests of a file share, with `FILE::*`, for whichever of them sets it up. How long each test took is written
beside them. What a test makes another process do is not noted.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import coverage
import pytest
from tests.mutation.rooms import SOURCE

INTO = "MUTATION_NOTES"
"""Environment variable: the directory for coverage's data."""
WHOLE_FILE = "::*"


class Noting:
    """Switches coverage's context with what is executed."""

    def __init__(self, into: Path) -> None:
        self._into = into
        self._test = ""
        self._seconds: dict[str, float] = {}
        self._coverage = coverage.Coverage(
            data_file=str(into / "lines"),
            data_suffix=True,
            source=[str(SOURCE)],
            omit=[f"{SOURCE}/simulation/*", f"{SOURCE}/cli/*"],
            config_file=False,
            messages=False,
        )
        self._coverage.start()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        self._test = item.nodeid
        self._coverage.switch_context(item.nodeid)
        try:
            return (yield)
        finally:
            self._coverage.switch_context("")

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Generator[None, Any, Any]:
        if fixturedef.scope == "function":
            return (yield)
        self._coverage.switch_context(self._test.partition("::")[0] + WHOLE_FILE)
        try:
            return (yield)
        finally:
            self._coverage.switch_context(self._test)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid] = self._seconds.get(report.nodeid, 0.0) + report.duration

    def pytest_unconfigure(self) -> None:
        self._coverage.stop()
        self._coverage.save()
        (self._into / f"seconds.{os.getpid()}").write_text(json.dumps(self._seconds))


def pytest_configure(config: pytest.Config) -> None:
    """Not in the process that only hands tests out to others."""
    hands_out = config.getoption("numprocesses", None) and not hasattr(config, "workerinput")
    if INTO in os.environ and not hands_out:
        config.pluginmanager.register(Noting(Path(os.environ[INTO])), "mutation-noting")
