"""Looks that come again and again are not left out (S35'): each trace is judged with the look and without."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from mooring.simulation.checks.invariants import Checks
from mooring.simulation.checks.settings import Settings
from mooring.simulation.engine.trace import Trace
from mooring.volumes.names import DETACHING, VOLUME_NAME

Happened = tuple[float, str, dict[str, Any]]
NO_MORE: Mapping[str, str] = {}
PLACE = {"volume": "v", "node": "n1"}
ATTACHED: Happened = (0.0, "truth.attached", PLACE | {"epoch": 1})


def stored(at: float, resource: str, name: str, **body: Any) -> Happened:
    metadata = body.pop("metadata", {})
    fields = {"resource": resource, "name": name, "version": 1}
    return at, "store.written", fields | {"_body": msgspec.json.encode({"metadata": metadata} | body)}


def record(at: float = 0.0, annotations: Mapping[str, str] = NO_MORE) -> Happened:
    named = {VOLUME_NAME: "kubernetes.io/csi/d^v"}
    return stored(
        at,
        "volumeattachments.storage.k8s.io",
        "va",
        metadata={"annotations": named | {**annotations}},
        spec={"nodeName": "n1", "source": {"persistentVolumeName": "v"}},
        status={"attached": True},
    )


DEFINED = stored(0.0, "persistentvolumes", "v")
SWEPT = "told.swept", {"by": 1, "volume": "kubernetes.io/csi/d^v", "node": "", "action": ""}
VERIFIED = "truth.verified", PLACE | {"by": "attaching 1"}
CUT = {"what": "cut", "on": "attaching", "value": 1.0, "how": 0}


def found(*happened: Happened, until: float = 1000.0, **settings: float) -> list[str]:
    """What is overdue, where something is written every ten seconds."""
    moment = [0.0]
    trace = Trace(lambda: moment[0])
    checks = Checks(trace, Settings(**settings))  # type: ignore[arg-type]
    beats = [stored(10.0 * beat, "leases", "l") for beat in range(int(until // 10))]
    for at, kind, fields in sorted([*happened, *beats], key=lambda each: each[0]):
        moment[0] = at
        trace("x", kind, **fields)
    return [each.message for each in checks.violations if each.invariant == "S35'"]


def test_a_sweep_that_does_not_come_is_missed():
    assert found(record(), sweeps_s=300.0)[0] == "the full sweep looks at v after 380 s at the soonest"
    looks = [(at, *SWEPT) for at in (300.0, 600.0, 900.0)]
    assert found(record(), *looks, sweeps_s=300.0) == []


def test_a_verification_that_does_not_come_is_missed():
    attached = (record(), DEFINED, ATTACHED)
    assert len(found(*attached, verifies_s=300.0)) == 2
    looks = [(at, *VERIFIED) for at in (300.0, 600.0, 900.0)]
    assert found(*attached, *looks, verifies_s=300.0) == []


@pytest.mark.parametrize(
    "lacking",
    [
        (record(), ATTACHED),
        (record(), DEFINED),
        (DEFINED, ATTACHED),
        (record(annotations={DETACHING: "t"}), DEFINED, ATTACHED),
    ],
    ids=["its definition is gone", "it is not attached", "it has no record", "its detach has begun"],
)
def test_of_what_is_not_attached_and_defined_the_storage_is_not_asked(lacking: tuple[Happened, ...]):
    assert found(*lacking, verifies_s=300.0) == []


@pytest.mark.parametrize("looks", ["sweeps_s", "verifies_s"])
def test_a_period_begins_anew_after_a_fault_of_the_process(looks: str):
    cut, over = (290.0, "plan.step", CUT), (300.0, "plan.over", CUT)
    assert found(record(), DEFINED, ATTACHED, cut, over, until=700.0, **{looks: 300.0}) == []
    assert len(found(record(), DEFINED, ATTACHED, cut, over, until=900.0, **{looks: 300.0})) == 1


def test_what_has_gone_between_is_new():
    detached, again = (200.0, "truth.detached", PLACE | {"epoch": 1}), (201.0, *ATTACHED[1:])
    assert found(record(), DEFINED, ATTACHED, detached, again, until=550.0, verifies_s=300.0) == []
    gone = (200.0, "store.deleted", record()[2])
    assert found(record(), gone, record(201.0), until=550.0, sweeps_s=300.0) == []


def test_a_detach_that_was_begun_and_taken_back_between_two_checks_begins_the_period_anew():
    """63184 of the swarm: the round came in between."""
    marked, back = record(306.0, {DETACHING: "t"}), record(307.0)
    attached = (record(), DEFINED, ATTACHED)
    assert found(*attached, marked, back, until=600.0, verifies_s=300.0) == []
    assert len(found(*attached, record(306.0), back, until=600.0, verifies_s=300.0)) == 1
