"""Plays the tables of upstream's scheduler plugins that say which events make it look at a waiting pod again.

A pod waits, its claims are known, and an event comes. A pod that upstream looks at again must be looked at
here. That ours looks at more pods is no difference: each choice is made from all that is known then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, cast

from tests.upstream.scheduler import Marked, controller_with, typed
from tests.upstream.tables import Json, name_of, read

from mooring.kube.client import WatchEvent
from mooring.kube.objects import Pod

QUEUE = 1
"""Upstream's hint that the pod is to be looked at again; 0, which its cases leave out, that it is not."""


class Wake(NamedTuple):
    """An event while a pod waits. `old` is None for an addition, `new` for a deletion."""

    key: str
    pod: Json
    known: list[Json]
    old: Json | None
    new: Json | None
    wakes: bool


def outcome(case: Wake) -> list[str]:
    """Returns the differences; none if the pod is looked at again where upstream's is."""
    pod = {**case.pod, "spec": {**case.pod.get("spec", {}), "nodeName": ""}}
    pod["metadata"] = {**pod.get("metadata", {}), "name": "the-one-that-waits", "uid": "the-one-that-waits"}
    if "name" in case.pod.get("metadata", {}):
        pod["metadata"]["name"] = case.pod["metadata"]["name"]
    controller: Any = controller_with([*case.known, pod, *([case.old] if case.old is not None else [])])
    controller.queue = marked = Marked()
    changed = typed(cast("Json", case.new or case.old), version="2")
    kind = "DELETED" if case.new is None else "MODIFIED"
    controller.cache(type(changed)).apply(WatchEvent(kind, changed, "2"))
    woken = cast("Pod", typed(pod)).key in marked.keys
    return ["is not looked at again"] if case.wakes and not woken else []


def played(cases: Iterable[Wake]) -> dict[str, list[str]]:
    """Each case → its differences."""
    return {case.key: outcome(case) for case in cases}


FIELDS: dict[str, tuple[str, str]] = {
    "TestIsSchedulableAfterPersistentVolumeChange": ("oldObj", "newObj"),
    "TestIsSchedulableAfterPersistentVolumeClaimAdded": ("oldObj", "newObj"),
    "TestIsSchedulableAfterStorageClassAdded": ("oldObj", "newObj"),
    "Test_isSchedulableAfterPersistentVolumeClaimChange": ("oldObj", "newObj"),
    "Test_isSchedulableAfterPodDeleted": ("oldObj", "newObj"),
    "TestCSILimitsAddedPVCQHint": ("", "addedPvc"),
    "TestCSILimitsAfterCSINodeUpdatedQHint": ("oldDrivers", "newDrivers"),
    "TestCSILimitsDeletedVolumeAttachmentQHint": ("deletedVA", ""),
    "TestCSILimitsQHint": ("deletedPod", ""),
    "TestIsSchedulableAfterCSIDriverChange": ("oldObj", "newObj"),
    "TestIsSchedulableAfterCSINodeChange": ("oldObj", "newObj"),
    "TestIsSchedulableAfterCSIStorageCapacityChange": ("oldCap", "newCap"),
    "TestIsSchedulableAfterPersistentVolumeClaimChange": ("oldPVC", "newPVC"),
    "TestIsSchedulableAfterStorageClassChange": ("oldSC", "newSC"),
}
"""Test → its fields for the object before and after."""


def wakes(package: str) -> Iterator[Wake]:
    """The cases of a package about events."""
    for table in read(package).tables:
        before, after = FIELDS.get(table.test, ("", ""))
        for row in table.rows if before or after else ():
            old, new = _state(table.test, row.get(before)), _state(table.test, row.get(after))
            if old is None and new is None:
                continue  # a call with objects of another type, which typed code does not have
            pod = row.get("pod") or row.get("newPod") or table.scope.get("testPod") or {"kind": "Pod"}
            known = [row["existingPVC"]] if row.get("existingPVC", {}).get("metadata") else []
            hint = row.get("expectedHint", row.get("wantQHint", row.get("expect", 0)))
            yield Wake(f"{table.test}: {name_of(row)}", pod, known, old, new, hint == QUEUE)


def _state(test: str, found: Any) -> Json | None:
    if test == "TestCSILimitsAfterCSINodeUpdatedQHint":
        return {"kind": "CSINode", "metadata": {"name": "test-node"}, "spec": {"drivers": found}}
    if not isinstance(found, dict):
        return None
    if found.get("kind") == "Pod":  # one that is deleted has been on a node
        return {**found, "spec": {**found.get("spec", {}), "nodeName": "here"}, "metadata": {"name": "goes"}}
    return cast("Json", found)
