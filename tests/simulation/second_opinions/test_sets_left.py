"""What is to be done for a StatefulSet, and nothing looks at."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from mooring.kube.objects import (
    ObjectMeta,
    OwnerReference,
    PersistentVolumeClaim,
    Pod,
    PodStatus,
    StatefulSet,
    StatefulSetSpec,
    StatefulSetStatus,
)
from mooring.simulation.checks.second_opinions.sets_left import missed_of_sets

KEY = "ns/app"
SET = StatefulSet(
    metadata=ObjectMeta(name="app", namespace="ns", uid="u", generation=2),
    spec=StatefulSetSpec(replicas=1, volume_claim_templates=[{"metadata": {"name": "data"}, "spec": {}}]),
    status=StatefulSetStatus(observed_generation=2, update_revision="new"),
)
ENDS = replace(SET, metadata=replace(SET.metadata, deletion_timestamp="t"))
CHANGED = replace(SET, metadata=replace(SET.metadata, generation=3))


def pod(phase: str) -> Pod:
    return Pod(metadata=ObjectMeta(name="app-0", namespace="ns", uid="p"), status=PodStatus(phase=phase))


def claim(*, deleting: bool = False, owner: str = "") -> PersistentVolumeClaim:
    owners = (OwnerReference(api_version="v1", kind="Pod", name="app-0", uid=owner),) if owner else ()
    return PersistentVolumeClaim(
        metadata=ObjectMeta(
            name="data-app-0",
            namespace="ns",
            deletion_timestamp="t" if deleting else None,
            owner_references=owners,
        )
    )


@pytest.mark.parametrize(
    ("stateful_set", "pods", "claims", "queued", "missed"),
    [
        (SET, [pod("Pending")], [claim()], False, False),
        (SET, [pod("Running")], [], False, False),
        (SET, [], [claim(deleting=True)], False, False),
        (SET, [], [claim(owner="former")], False, False),
        (SET, [], [claim()], True, False),
        (ENDS, [], [claim()], False, False),
        (CHANGED, [], [claim()], False, False),
        (SET, [], [claim()], False, True),
        (SET, [], [], False, True),
        (SET, [], [claim(owner="u")], False, True),
        (SET, [pod("Pending")], [], False, True),
        (SET, [pod("Failed")], [claim()], False, True),
    ],
)
def test_what_is_to_be_done_for_a_set_and_not_in_the_queue_is_missed(
    stateful_set: StatefulSet, pods: list[Pod], claims: Any, queued: bool, missed: bool
):
    controller: Any = SimpleNamespace(
        queue={KEY} if queued else set[str](),
        _sets=SimpleNamespace(items=lambda: [stateful_set]),
        _claims={each.key: each for each in claims},
        _pods_of=lambda of: dict(enumerate(pods)),
        now=lambda: datetime(2030, 1, 1, tzinfo=UTC),
    )
    assert bool([*missed_of_sets(controller)]) is missed
