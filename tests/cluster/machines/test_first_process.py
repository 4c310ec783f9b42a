"""The first process of a machine of namespaces: what ends it ends the machine."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from mooring.cluster.machines.namespace.first_process import Machine


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """A machine takes SIGTERM for itself."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def test_a_power_button_that_is_pressed_as_the_agent_was_reaped_starts_one_that_ends_its_pods(
    monkeypatch: pytest.MonkeyPatch,
):
    """The kernel has told of its end, and the machine has not looked at it yet."""
    ends = "import signal, sys; sys.exit(int(signal.sigwait({signal.SIGUSR1}) != signal.SIGUSR1))"
    agents = iter([["false"], [sys.executable, "-c", ends]])
    machine: Any = Machine(next(agents))
    wait = os.wait

    def pressed() -> tuple[int, int]:
        found = wait()
        if (command := next(agents, None)) is not None:
            machine._command = command
            os.kill(os.getpid(), signal.SIGTERM)
        return found

    monkeypatch.setattr(os, "wait", pressed)
    machine.run()
    assert next(agents, None) is None
