"""Each checker fires on a trace that violates it, and on no trace that only nearly does."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mooring.simulation.invariants import check
from mooring.simulation.trace import Trace

Events = list[tuple[str, dict[str, Any]]]

ATTACHED = {"volume": "v", "node": "n1", "epoch": 1}
MOUNTED = {"volume": "v", "node": "n1", "attached": True, "epoch": 1}
THERE = {"volume": "v", "node": "n1"}
POD = {"pod": "db-0", "uid": "a", "node": "n1"}
OTHER = {"pod": "db-0", "uid": "b", "node": "n2"}
WRITTEN = {"volume": "v", "node": "n1", "word": "w", "fit": True, "found": 0}


def record(name: str = "va", **more: Any) -> tuple[str, dict[str, Any]]:
    body = {"metadata": {"annotations": {"mooring.dev/volume-name": "v"}}, "spec": {"nodeName": "n1"}}
    return "store.written", {"resource": "volumeattachments.storage.k8s.io", "name": name, "_body": encoded(body)}


def claim(uid: str, volume: str, name: str = "default/c") -> tuple[str, dict[str, Any]]:
    body = {"metadata": {"uid": uid}, "spec": {"volumeName": volume}, "status": {"phase": "Bound"}}
    return "store.written", {"resource": "persistentvolumeclaims", "name": name, "_body": encoded(body)}


def gone(resource: str, name: str) -> tuple[str, dict[str, Any]]:
    return "store.deleted", {"resource": resource, "name": name}


def encoded(body: dict[str, Any]) -> bytes:
    return msgspec.json.encode(body)


def asked(act: str, node: str = "n1") -> dict[str, Any]:
    return {"volume": "v", "node": node, "act": act}


RECORDS = "volumeattachments.storage.k8s.io"
CASES: dict[str, tuple[Events, Events]] = {
    "S1": (
        [("truth.started", POD), ("truth.started", OTHER)],
        [("truth.started", POD), ("truth.ended", POD), ("truth.started", OTHER)],
    ),
    "S4": (
        [("truth.mounted", MOUNTED), ("truth.mounted", MOUNTED | {"node": "n2"})],
        [("truth.mounted", MOUNTED), ("truth.unmounted", THERE), ("truth.mounted", MOUNTED | {"node": "n2"})],
    ),
    "S4'": ([("truth.written", WRITTEN | {"fit": False})], [("truth.written", WRITTEN)]),
    "S6": ([("truth.mounted", MOUNTED | {"attached": False})], [("truth.mounted", MOUNTED)]),
    "S7": (
        [("truth.mounted", MOUNTED), ("truth.begin", asked("detach"))],
        [("truth.mounted", MOUNTED), ("truth.unmounted", THERE), ("truth.begin", asked("detach"))],
    ),
    "S8": (
        [("truth.begin", asked("detach")), ("truth.begin", asked("attach", "n2"))],
        [("truth.begin", asked("detach")), ("truth.begin", asked("detach")), ("truth.end", asked("detach"))],
    ),
    "S12": ([claim("a", "v"), claim("a", "w")], [claim("a", "v"), claim("a", "v"), claim("b", "w", "default/d")]),
    "S13": (
        [record(), ("truth.attached", ATTACHED), gone(RECORDS, "va")],
        [record(), ("truth.attached", ATTACHED), ("truth.detached", ATTACHED), gone(RECORDS, "va")],
    ),
    "S14": (
        [claim("a", "pvc-a"), ("truth.deleted", {"volume": "pvc-a"})],
        [claim("a", "pvc-a"), gone("persistentvolumeclaims", "default/c"), ("truth.deleted", {"volume": "pvc-a"})],
    ),
    "S16": (
        [("truth.written", WRITTEN), ("truth.written", WRITTEN)],
        [("truth.written", WRITTEN), ("truth.written", WRITTEN | {"found": 1})],
    ),
    "D1": ([("truth.lost", {"had": 5, "has": 4})], []),
    "P1": ([("truth.died", {"error": "E"})], []),
}


def found(events: Events) -> list[str]:
    trace = Trace(lambda: 0.0)
    violations = check(trace)
    for kind, fields in events:
        trace("x", kind, **fields)
    return [each.invariant for each in violations]


@pytest.mark.parametrize("invariant", CASES)
def test_a_violating_trace_is_found_and_a_near_miss_passes(invariant: str):
    violating, near_miss = CASES[invariant]
    assert found(violating) == [invariant]
    assert found(near_miss) == []


def test_a_pod_that_a_user_removed_by_force_may_have_a_successor():
    assert found([("truth.started", POD), ("plan.forced", {"uid": "a"}), ("truth.started", OTHER)]) == []
