"""Plays the tables of upstream's scheduler plugins about volumes against our scheduler's decision.

A case's objects are put into the caches of a SchedulingController, and its choice for the case's pod is
compared with what upstream's plugin says: whether the pod may go to the node, and in which words it may not.
Each node is judged for itself. Nodes are Ready, which upstream's plugins do not look at.

Cases about waking are played by `scheduler_wakes`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from random import Random
from typing import Any, NamedTuple, cast

import msgspec
from tests.upstream.tables import Json, Table, name_of, read

from mooring.controllers.scheduling.controller import SchedulingController
from mooring.controllers.scheduling.decide import Action
from mooring.kube.client import Client
from mooring.kube.objects import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    Node,
    Object,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    StorageClass,
    VolumeAttachment,
)

KINDS: dict[str, type[Object]] = {
    kind.RESOURCE.kind: kind
    for kind in (
        CSIDriver, CSINode, CSIStorageCapacity, Node, PersistentVolume, PersistentVolumeClaim, Pod, StorageClass,
        VolumeAttachment,
    )
}  # fmt: skip
READY = {"type": "Ready", "status": "True"}
HERE = {"kind": "Node", "metadata": {"name": "here"}}


class Case(NamedTuple):
    """One pod and one node. `expected`: upstream's reasons; None if the pod may go there, empty if none is
    given. `bindings`: claim -> volume, where a case says which existing volumes the claims get."""

    key: str
    pod: Json
    node: Json
    objects: list[Json]
    expected: list[str] | None
    bindings: dict[str, str] | None = None


class Marked:
    """Stands for the queue, and notes what is put into it."""

    def __init__(self) -> None:
        self.keys: set[str] = set()

    def add(self, key: str) -> None:
        self.keys.add(key)


def outcome(case: Case) -> list[str]:
    """Returns the differences; none if our scheduler says the same."""
    controller = controller_with([case.node, *case.objects])
    choice, _ = controller.choice(cast("Pod", typed(case.pod)))
    found = choice.reason.message
    if case.expected is None and choice.action is Action.BIND:
        chosen = {key.partition("/")[2]: volume.name for key, volume in choice.matches.items()}
        return [f"binds {chosen}"] if case.bindings not in (None, chosen) else []
    if case.expected is None:
        return [f"waits: {found}"]
    if choice.action is Action.BIND:
        return [f"placed, although {'; '.join(case.expected)}"]
    return [f"says {found!r}, not {reason!r}" for reason in case.expected if reason not in found]


def controller_with(objects: Iterable[Json]) -> SchedulingController:
    client = cast("Client", None)  # nothing is written
    made = SchedulingController(client, now=lambda: datetime(2030, 1, 1, tzinfo=UTC), random=Random(1))
    made.queue = cast("Any", Marked())
    for each in objects:
        obj = typed(each)
        if type(obj) in (informer.kind for informer in made.caches):
            made.cache(type(obj)).accept(obj)
    return made


def typed(fields: Json, version: str = "1") -> Object:
    """Returns an object of the API from its fields; what the server would have given it is filled in."""
    metadata = {"name": "unnamed", "resourceVersion": version, **fields.get("metadata", {})}
    metadata = {"uid": f"uid-{metadata['name']}", **metadata}
    if KINDS[fields["kind"]].RESOURCE.namespaced:
        metadata = {"namespace": "default", **metadata}
    fields = {**fields, "metadata": metadata}
    if fields["kind"] == "Node":
        fields["status"] = {**fields.get("status", {}), "conditions": [READY]}
    return msgspec.json.decode(json.dumps(fields), type=KINDS[fields["kind"]])


def reasons_of(status: Json | None) -> list[str] | None:
    """Returns what a plugin's Status says against a node; None for a success, also of a plugin that is
    skipped."""
    if status is None or status.get("code") == "Skip":
        return None
    return status.get("reasons") or [status["code"]]


def case_key(table: Table, row: Json) -> str:
    """Returns the name of a case, by which differences are recorded."""
    return f"{table.test}: {name_of(row)}"


# --- volumezone


def zones() -> Iterator[Case]:
    facts = read("volumezone")
    for test in ("TestSingleZone", "TestMultiZone", "TestWithBinding"):
        table = facts.table(test)
        scope = [each for name in ("pvLister", "pvcLister", "scLister") for each in table.scope.get(name, [])]
        for row in table.rows:
            expected = reasons_of(row.get("wantPreFilterStatus")) or reasons_of(row.get("wantFilterStatus"))
            yield Case(
                case_key(table, row), row["Pod"], row["Node"], [*_classes(scope), *completed(scope)], expected
            )


def completed(objects: Iterable[Json]) -> Iterator[Json]:
    """Upstream's plugin looks at the name of a claim's volume only: here the binder has completed it."""
    for each in objects:
        if each["kind"] == "PersistentVolumeClaim" and each.get("spec", {}).get("volumeName"):
            annotations = {"pv.kubernetes.io/bind-completed": "yes"}
            yield {**each, "metadata": {**each["metadata"], "annotations": annotations}}
        else:
            yield each


def _classes(objects: Iterable[Json]) -> Iterator[Json]:
    return ({**each, "provisioner": "any"} for each in objects if each["kind"] == "StorageClass")


# --- volumerestrictions


def restrictions() -> Iterator[Case]:
    facts = read("volumerestrictions")
    for test in (
        "TestAWSDiskConflicts",
        "TestGCEDiskConflicts",
        "TestISCSIDiskConflicts",
        "TestRBDDiskConflicts",
    ):
        table = facts.table(test)
        for row in table.rows:
            others = [_placed(each["Pod"]) for each in (row["nodeInfo"] or {}).get("pods") or []]
            status = reasons_of(row.get("preFilterWantStatus")) or reasons_of(row.get("wantStatus"))
            yield Case(case_key(table, row), row["pod"], HERE, others, status)
    table = facts.table("TestAccessModeConflicts")
    for row in table.rows:
        objects = [*row.get("existingPods", []), *_waiting(row.get("existingPVCs", []))]
        node = (row.get("existingNodes") or [table.scope["node"]])[0]
        status = reasons_of(row.get("preFilterWantStatus")) or reasons_of(row.get("wantStatus"))
        pod = {**row["pod"], "spec": {**row["pod"].get("spec", {}), "nodeName": ""}}
        pod["metadata"] = {**pod.get("metadata", {}), "uid": "the-new-one"}
        yield Case(case_key(table, row), pod, node, objects, status)


def _placed(pod: Json) -> Json:
    metadata = {**pod.get("metadata", {}), "name": f"other-{json.dumps(pod, sort_keys=True)[:40]}"}
    return {**pod, "metadata": metadata, "spec": {**pod.get("spec", {}), "nodeName": "here"}}


def _waiting(claims: Iterable[Json]) -> Iterator[Json]:
    """The claims, bound to a volume of their own: the plugin judges their access modes only."""
    for each in claims:
        name = each["metadata"]["name"]
        annotations = {"pv.kubernetes.io/bind-completed": "yes"}
        spec = {**each.get("spec", {}), "volumeName": f"pv-{name}"}
        yield {**each, "metadata": {**each["metadata"], "annotations": annotations}, "spec": spec}
        yield {"kind": "PersistentVolume", "metadata": {"name": f"pv-{name}"}, "spec": {}}


# --- nodevolumelimits

LIMITED = {"kind": "Node", "metadata": {"name": "node-for-max-pd-test-1"}}
IN_TREE_AWS, IN_TREE_HOST_PATH = "kubernetes.io/aws-ebs", "kubernetes.io/hostpath"


def limits() -> Iterator[Case]:
    facts = read("nodevolumelimits")
    table = facts.table("TestCSILimits")
    for row in table.rows:
        drivers = row["driverNames"]
        objects = [
            *_csi_node(row.get("limitSource", ""), drivers, row.get("maxVols", 0)),
            *(each for driver in drivers for number in range(4) for each in _bound_pair(driver, number)),
            *_loose_claims(drivers[0]),
            *completed(row.get("extraClaims") or []),
            *(_on(pod, LIMITED) for pod in row.get("existingPods") or []),
            *map(_attachment, range(row.get("vaCount", 0))),
        ]
        expected = reasons_of(row.get("wantPreFilterStatus")) or reasons_of(row.get("wantStatus"))
        namespace = row["newPod"].get("metadata", {}).get("namespace", "default")
        objects = [_in(each, namespace) for each in objects]
        yield Case(case_key(table, row), row["newPod"], LIMITED, objects, expected)


def _csi_node(source: str, drivers: Iterable[str], most: int) -> Iterator[Json]:
    """The limits of the case, as upstream's `getNodeWithPodAndVolumeLimits` makes them."""
    allocatable = {"allocatable": {"count": most}} if source == "csinode" else {}
    named = [{"name": driver, "nodeID": "n", **allocatable} for driver in drivers]
    if source:
        yield {"kind": "CSINode", "metadata": LIMITED["metadata"], "spec": {"drivers": named}}


def _bound_pair(driver: str, number: int) -> Iterator[Json]:
    """A claim and its volume, as upstream's `getFakeCSIPVCLister` and `getFakeCSIPVLister` make them."""
    name = f"csi-{driver}-{number}"
    sources: dict[str, Json] = {
        IN_TREE_AWS: {"awsElasticBlockStore": {"volumeID": name}},
        IN_TREE_HOST_PATH: {"hostPath": {"path": "/tmp"}},
    }
    source = sources.get(driver, {"csi": {"driver": driver, "volumeHandle": name}})
    yield {"kind": "PersistentVolume", "metadata": {"name": name}, "spec": source}
    claim = {"kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": {"volumeName": name}}
    yield from completed([claim])


def _loose_claims(provisioner: str) -> Iterator[Json]:
    """Claims without a volume: of a class, of none, and of a volume that is gone. The class waits for its
    first consumer, so that nothing but the limit is judged."""
    mode = {"volumeBindingMode": "WaitForFirstConsumer"}
    yield {"kind": "StorageClass", "metadata": {"name": "csi-sc"}, "provisioner": provisioner, **mode}
    for number, spec in ((4, {"storageClassName": "csi-sc"}), (5, {})):
        yield {"kind": "PersistentVolumeClaim", "metadata": {"name": f"csi-{number}"}, "spec": spec}
    gone = {"storageClassName": "csi-sc", "volumeName": "missing-in-action"}
    yield from completed([{"kind": "PersistentVolumeClaim", "metadata": {"name": "csi-6"}, "spec": gone}])


def _attachment(number: int) -> Json:
    """A volume that is attached though no pod uses it."""
    volume = {"persistentVolumeName": f"csi-ebs.csi.aws.com-{number + 1}"}
    spec = {"attacher": "ebs.csi.aws.com", "nodeName": LIMITED["metadata"]["name"], "source": volume}
    return {"kind": "VolumeAttachment", "metadata": {"name": f"va-{number}"}, "spec": spec}


def _on(pod: Json, node: Json) -> Json:
    name = f"existing-{json.dumps(pod, sort_keys=True)}"
    spec = {**pod.get("spec", {}), "nodeName": node["metadata"]["name"]}
    return {**pod, "metadata": {"name": name, **pod.get("metadata", {})}, "spec": spec}


def _in(obj: Json, namespace: str) -> Json:
    """The object in this namespace, unless it says one, or is of a kind that has none."""
    if not KINDS[obj["kind"]].RESOURCE.namespaced:
        return obj
    return {**obj, "metadata": {"namespace": namespace, **obj["metadata"]}}


def played(cases: Callable[[], Iterator[Case]]) -> dict[str, list[str]]:
    """Each case → its differences."""
    return {case.key: outcome(case) for case in cases()}
