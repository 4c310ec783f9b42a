"""What rightly stays of a volume that nothing defines."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mooring.kube.objects import (
    ObjectMeta,
    VolumeAttachment,
    VolumeAttachmentSource,
    VolumeAttachmentSpec,
)
from mooring.simulation.checks.invariants.objects import ATTACHMENTS
from mooring.simulation.checks.undefined import VALID_S, VOLUMES, Undefined
from mooring.simulation.engine.trace import Event, Trace

RECORD = VolumeAttachment(
    metadata=ObjectMeta(name="va"),
    spec=VolumeAttachmentSpec(
        attacher="a", node_name="n1", source=VolumeAttachmentSource(persistent_volume_name="pv")
    ),
)
BODY = {
    "metadata": {"name": "va", "uid": "u"},
    "spec": {"nodeName": "n1", "source": {"persistentVolumeName": "pv"}},
}


def account(*told: tuple[str, float, dict[str, Any]]) -> Undefined:
    trace = Trace(lambda: 0.0)
    found = Undefined(trace)
    methods = {"store.written": found._written, "store.deleted": found._deleted, "truth.begin": found._begin}
    for kind, at, fields in told:
        methods[kind](Event(0, at, "store", kind, fields))
    return found


def volume(kind: str) -> tuple[str, float, dict[str, Any]]:
    return kind, 0.0, {"resource": VOLUMES, "name": "pv"}


ASKED = ("truth.begin", 100.0, {"act": "detach", "volume": "pv", "node": "n1"})
ELSEWHERE = ("truth.begin", 100.0, {"act": "detach", "volume": "pv", "node": "n2"})


@pytest.mark.parametrize(
    ("told", "at", "stays"),
    [
        ([ASKED], 100.0 + VALID_S - 1, True),
        ([ASKED], 100.0 + VALID_S, False),
        ([ELSEWHERE], 101.0, False),
        ([], 0.0, False),
        ([volume("store.written"), ASKED], 101.0, False),
        ([volume("store.written"), ASKED, volume("store.deleted")], 101.0, True),
    ],
)
def test_a_record_of_a_volume_that_nothing_defines_stays_while_a_request_counts(
    told: list[Any], at: float, stays: bool
):
    assert account(*told).stay([RECORD], at) == ({"va"} if stays else set())


def test_writes_of_such_a_record_are_told_from_others():
    def written(resource: str = ATTACHMENTS) -> Event:
        return Event(
            0, 0.0, "store", "store.written", {"resource": resource, "_body": json.dumps(BODY).encode()}
        )

    assert written() in account()
    assert written("pods") not in account()
    assert written() not in account(volume("store.written"))
    assert written() in account(volume("store.written"), volume("store.deleted"))
