"""The second opinion about when drivers are asked what is attached."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from opinions import objections

from mooring.simulation.checks.second_opinions import verifying
from mooring.simulation.cluster.controllers import VERIFY_S
from mooring.volumes.plugins.csi.attaching import CSIAttacher


async def asked_twice(monkeypatch: pytest.MonkeyPatch, one: Any, other: Any, after_s: float) -> list[str]:
    moment = [100.0]
    monkeypatch.setattr(verifying, "now", lambda: moment[0])
    with objections(verifying.QUESTIONS) as found:
        for driver in (one, other):
            attacher = CSIAttacher(driver, SimpleNamespace(), {})  # type: ignore[arg-type]
            with pytest.raises(AttributeError):  # it is ill
                await attacher.bulk_verify_volumes({})
            moment[0] += after_s
    return found


class Ill:
    """A driver that cannot be asked."""


@pytest.mark.parametrize(("after_s", "objected"), [(0.0, True), (VERIFY_S / 2, True), (VERIFY_S, False)])
def test_a_driver_that_is_asked_again_within_the_period_is_objected_to(
    monkeypatch: pytest.MonkeyPatch, after_s: float, objected: bool
):
    driver = Ill()
    assert bool(asyncio.run(asked_twice(monkeypatch, driver, driver, after_s))) is objected


def test_another_driver_is_asked_at_once(monkeypatch: pytest.MonkeyPatch):
    assert asyncio.run(asked_twice(monkeypatch, Ill(), Ill(), 0.0)) == []
