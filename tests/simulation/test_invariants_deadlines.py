"""A wait that is longer than its bound is found, unless a fault explains it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mooring.controllers.provisioning.askers import ASKED_BY
from mooring.controllers.provisioning.decide import BEGUN
from mooring.simulation.checks.invariants import Checks
from mooring.simulation.checks.invariants.deadlines.bounds import WAITS, acts, bounds
from mooring.simulation.checks.settings import Settings
from mooring.simulation.cluster.scenario import Scenario
from mooring.simulation.cluster.workloads import BROKEN
from mooring.simulation.engine.trace import Trace
from mooring.simulation.parts.storage_targets import target_of

Event = tuple[str, dict[str, Any]]
LIMITS = bounds(Settings())
RECORDS = "volumeattachments.storage.k8s.io"


def written(resource: str, name: str, **body: Any) -> Event:
    whole: dict[str, Any] = {"metadata": {}, **body}
    return "store.written", {"resource": resource, "name": name, "_body": msgspec.json.encode(whole)}


def gone(resource: str, name: str) -> Event:
    return "store.deleted", {"resource": resource, "name": name, "_body": b'{"metadata":{}}'}


def node(ready: str = "True", *, sign: str = "1", name: str = "n1", **spec: Any) -> Event:
    annotations = {"mooring.dev/status-write": sign}
    status = {"conditions": [{"type": "Ready", "status": ready}]}
    return written("nodes", name, metadata={"annotations": annotations}, spec=spec, status=status)


def claim(volume: str = "v", *, phase: str = "Bound", going: bool = False, uid: str = "c") -> Event:
    metadata = {"uid": uid} | ({"deletionTimestamp": "t"} if going else {})
    spec, status = {"volumeName": volume, "storageClassName": "disk"}, {"phase": phase}
    return written("persistentvolumeclaims", "default/data-db-0", metadata=metadata, spec=spec, status=status)


def pod(
    node: str = "", *, ready: bool = False, going: bool = False, uid: str = "a", name: str = "db-0"
) -> Event:
    metadata = {"uid": uid, "labels": {"app": "db"}} | ({"deletionTimestamp": "t"} if going else {})
    tolerations = [{"key": "node.kubernetes.io/unreachable", "tolerationSeconds": 30}]
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data-db-0"}}]
    spec = {"nodeName": node, "volumes": volumes, "tolerations": tolerations}
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    status = {"phase": "Running" if ready else "Pending", "conditions": conditions}
    return written("pods", f"default/{name}", metadata=metadata, spec=spec, status=status)


def record(
    *, attached: bool = False, going: bool = False, node: str = "n1", finalizers: tuple[str, ...] = ()
) -> Event:
    metadata: dict[str, Any] = {"annotations": {"mooring.dev/volume-name": "v"}, "uid": "r"}
    metadata |= {"finalizers": finalizers} | ({"deletionTimestamp": "t"} if going else {})
    return written(
        RECORDS, f"va-{node}", metadata=metadata, spec={"nodeName": node}, status={"attached": attached}
    )


def volume(phase: str, *, going: bool = False, mode: str = "ReadWriteOnce") -> Event:
    metadata = {"deletionTimestamp": "t"} if going else {}
    reference = {"uid": "c", "namespace": "default", "name": "data-db-0"}
    spec = {"persistentVolumeReclaimPolicy": "Delete", "claimRef": reference, "accessModes": [mode]}
    return written("persistentvolumes", "v", metadata=metadata, spec=spec, status={"phase": phase})


def replicas(number: int) -> Event:
    return written("statefulsets.apps", "default/db", spec={"replicas": number})


def snapshot(*, ready: bool) -> Event:
    spec, status = {"source": {"persistentVolumeClaimName": "data-db-0"}}, {"readyToUse": ready}
    return written(
        "volumesnapshots.snapshot.storage.k8s.io",
        "default/s",
        metadata={"namespace": "default", "name": "s", "uid": "s"},
        spec=spec,
        status=status,
    )


def copy(kind: str = "VolumeSnapshot", name: str = "s", *, phase: str = "Pending") -> Event:
    """A claim that is to be a copy of a snapshot, or of a claim."""
    spec = {"storageClassName": "disk", "dataSource": {"kind": kind, "name": name}}
    status, metadata = {"phase": phase}, {"uid": "copy"}
    return written("persistentvolumeclaims", "default/copy", metadata=metadata, spec=spec, status=status)


OFF = ("truth.power", {"on": False, "_actor": "n1"})


def declared() -> list[Event]:
    taint = {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute", "timeAdded": "t"}
    return [OFF, ("plan.declared", {"node": "n1", "out": True}), node("Unknown", taints=[taint])]


ATTACHED = ("truth.attached", {"volume": "v", "node": "n1", "epoch": 1})
MOUNTED = ("truth.mounted", {"volume": "v", "node": "n1", "attached": True, "epoch": 1})
UNMOUNTED = ("truth.unmounted", {"volume": "v", "node": "n1"})
RUNNING = [node(), claim(), pod("n1", ready=True)]
CASES: dict[str, tuple[list[Event], list[Event]]] = {
    "placed": ([node(), claim(), pod()], [pod("n1", ready=True)]),
    "running": ([node(), claim(), pod("n1")], [pod("n1", ready=True)]),
    "gone": ([node(), claim(), pod("n1", going=True)], [gone("pods", "default/db-0")]),
    "removed": ([node(), claim(), *declared(), pod("n1", going=True)], [gone("pods", "default/db-0")]),
    "unready": ([*RUNNING, node("Unknown")], [pod("n1")]),
    "evicted": ([node(name="n2"), *RUNNING, node("Unknown"), pod("n1")], [pod("n1", going=True)]),
    "made": ([node(), replicas(1)], [pod("n1", ready=True)]),
    "scaled-away": ([*RUNNING, replicas(0)], [pod("n1", ready=True, going=True)]),
    "attached": ([*RUNNING, record()], [record(attached=True)]),
    "given-up": ([node(), record(attached=True)], [record(attached=True, going=True)]),
    "detached": ([node(), volume("Bound"), record(going=True)], [gone(RECORDS, "va-n1")]),
    "left-behind": ([node(), record(going=True)], [gone(RECORDS, "va-n1")]),
    "unmounted": ([*RUNNING, MOUNTED, gone("pods", "default/db-0")], [UNMOUNTED]),
    "bound": ([node(), claim("", phase="Pending")], [claim()]),
    "copied": ([node(), snapshot(ready=True), copy()], [copy(phase="Bound")]),
    "claim-gone": ([node(), claim(going=True)], [gone("persistentvolumeclaims", "default/data-db-0")]),
    "volume-gone": ([node(), volume("Released")], [gone("persistentvolumes", "v")]),
    "orphaned": ([node(), pod("n1"), gone("nodes", "n1")], [gone("pods", "default/db-0")]),
    "answering": ([node(), node("Unknown")], [node(sign="3")]),
}


def late(*story: Event | float, settings: Settings | None = None) -> list[str]:
    """What is waited for too long; numbers let so many seconds pass, in which only Leases are written."""
    moment = [0.0]
    trace = Trace(lambda: moment[0])
    checks = Checks(trace, settings or Settings())
    for each in story:
        if not isinstance(each, float | int):
            kind, fields = each
            moment[0] += fields.get("_after", 0.0)
            trace(fields.get("_actor", "x"), kind, **fields)
            continue
        until = moment[0] + each
        while moment[0] < until:
            moment[0] = min(moment[0] + 5.0, until)
            sign = f"{moment[0]}"
            for name in ("n1", "n2"):
                lease = f"kube-node-lease/{name}"
                kind, fields = _lease(lease, sign)
                trace("x", kind, **fields)
    return [str(each) for each in checks.violations if each.invariant == "L12"]


def _lease(name: str, sign: str) -> Event:
    return written("leases.coordination.k8s.io", name, spec={"renewTime": sign})


@pytest.mark.parametrize("kind", CASES)
def test_what_comes_in_time_is_no_violation_and_what_comes_late_is(kind: str):
    begins, comes = CASES[kind]
    words = WAITS[kind][0].partition("{}")[2] or WAITS[kind][0].partition("{}")[0]
    found = late(*begins, LIMITS[kind] + 15, *comes, 200)
    assert any(words in each for each in found), found
    assert not any(words in each for each in late(*begins, LIMITS[kind] - 1, *comes, 200))


def test_a_wait_that_ends_at_once_and_begins_anew_long_after_with_nothing_between_is_two():
    kind, fields = node("Unknown")
    silent, again = ((kind, fields | {"_after": each}) for each in (6.0, LIMITS["unready"] + 15))
    story = [
        *RUNNING,
        20,
        claim(),
        silent,
        pod("n1"),
        node(sign="2"),
        pod("n1", ready=True),
        again,
        pod("n1"),
    ]
    assert late(*story) == []


def test_a_node_that_is_silent_and_is_not_unknown_is_found():
    moment = [0.0]
    trace = Trace(lambda: moment[0])
    checks = Checks(trace, Settings())
    kind, fields = node()
    trace("x", kind, **fields)
    for second in range(0, 120, 10):
        moment[0] = float(second)
        kind, fields = _lease("kube-node-lease/n2", str(second))
        trace("x", kind, **fields)
    assert [each.invariant for each in checks.violations] == ["L12"]


def door(kind: str, target: str) -> Event:
    return kind, {"target": target, "node": "n1"}


def test_a_pod_is_not_waited_for_while_the_storage_shuts_its_node_out_of_its_volume():
    waiting, own, other = [node(), claim(), pod("n1")], target_of("v"), target_of("x")
    assert own != other
    assert late(*waiting, door("truth.shut-out", own), 300) == []
    assert late(*waiting, door("truth.shut-out", other), 300) != [], "its own volume is let in"
    let_in = [*waiting, door("truth.shut-out", own), 300.0, door("truth.let-in", own)]
    assert late(*let_in, LIMITS["running"] - 5) == [], "it is waited for from then on"
    assert late(*let_in, LIMITS["running"] + 15) != []


def step(what: str, on: str, value: float = 60.0) -> Event:
    return "plan.step", {"what": what, "on": on, "value": value, "how": 0}


def over(what: str, on: str) -> Event:
    return "plan.over", {"what": what, "on": on}


WAITS_FOR_NODE = [node(), node(name="n2"), claim(), pod("n1")]
LIMIT = LIMITS["running"]


@pytest.mark.parametrize("on", ["n1", "attaching", "server", "array"])
def test_a_fault_explains_a_wait_for_as_long_as_it_lasts_and_the_time_to_recover(on: str):
    fault = [*WAITS_FOR_NODE, step("cut", on), 400.0, over("cut", on)]
    assert late(*fault) == []
    assert late(*fault, 150.0) == [], "the time to recover, and the whole bound again"
    assert len(late(*fault, 45.0 + 122.0 + LIMIT + 20.0)) == 1


def test_a_fault_of_another_node_explains_nothing():
    assert len(late(*WAITS_FOR_NODE, step("cut", "n2"), LIMIT + 15.0)) == 1


def test_a_node_that_has_had_the_volume_explains_the_wait_also_when_it_has_let_it_go():
    moved = [node(), node(name="n2"), claim(), record(attached=True, node="n2"), pod("n1")]
    assert late(*moved, step("cut", "n2"), 20.0, gone(RECORDS, "va-n2"), LIMIT + 15.0) == []


def test_a_short_fault_explains_little():
    short = [*WAITS_FOR_NODE, step("kill", "n1"), 1.0, over("kill", "n1")]
    assert late(*short, 40.0 + LIMIT) == []
    assert len(late(*short, 60.0 + LIMIT)) == 1


def test_what_is_healed_explains_nothing_any_more():
    lasting = [*WAITS_FOR_NODE, step("skew", "placing"), over("skew", "placing")]
    assert late(*lasting, 1000.0) == [], "it is over at once, so it lasts until all is healed"
    assert len(late(*lasting, 400.0, ("plan.healed", {}), 45.0 + 122.0 + LIMIT + 15.0)) == 1


def test_a_slow_unmount_makes_the_bound_longer_by_as_much():
    slow = [*WAITS_FOR_NODE, step("slow-unmount", "n1", 100.0), over("slow-unmount", "n1")]
    assert late(*slow, LIMIT + 90.0) == []
    assert len(late(*slow, LIMIT + 100.0 + 122.0 + 15.0)) == 1


@pytest.mark.parametrize(("mode", "waited_for"), [("ReadWriteOnce", True), ("ReadWriteOncePod", False)])
def test_a_pod_whose_volume_another_one_of_its_node_has_is_waited_for_if_both_may_use_it(
    mode: str, waited_for: bool
):
    story = [node(), claim(), volume("Bound", mode=mode), pod("n1", ready=True)]
    story += [pod("n1", name="other", uid="b")]
    assert bool(late(*story, LIMITS["running"] + 15)) == waited_for


def test_a_record_that_is_left_while_another_node_has_the_volume_for_a_pod_that_stays_is_not_waited_for():
    has = [node(), node(name="n2"), claim(), pod("n1", ready=True), record(attached=True)]
    waits = [record(node="n2"), pod("n2", name="other", uid="b")]
    assert late(*has, *waits, LIMITS["attached"] + 15) == []
    gone_since = [pod("n1", going=True), gone("pods", "default/db-0"), gone(RECORDS, "va-n1")]
    assert late(*has, *waits, *gone_since, LIMITS["attached"] + 15)


def test_what_a_slow_unmount_keeps_from_a_node_when_all_is_healed_is_tried_again_after_a_backoff():
    slow = [*WAITS_FOR_NODE, step("slow-unmount", "n1", 250.0), over("slow-unmount", "n1")]
    healed = [*slow, ("plan.healed", {})]
    assert late(*healed, 45.0 + 250.0 + 122.0 - 5.0) == []
    assert len(late(*healed, 45.0 + 250.0 + 122.0 + 15.0)) == 1


def test_the_next_pod_of_an_ordered_set_is_waited_for_as_long_as_the_clock_of_the_one_before_is_wrong():
    spec = {"replicas": 2, "podManagementPolicy": "OrderedReady"}
    ordered = [*RUNNING, written("statefulsets.apps", "default/db", spec=spec)]
    limit = LIMITS["made"]
    for on, more in (("n1", 60.0), ("n2", 0.0)):
        ahead = [node(name="n2"), step("skew", on), over("skew", on), *ordered]
        assert late(*ahead, limit + more - 5.0) == []
        assert len(late(*ahead, limit + more + 15.0)) == 1


@pytest.mark.parametrize(
    "story",
    [
        [node(unschedulable=True), claim(), pod()],  # drained
        [node(), claim("", phase="Pending"), pod("n1"), gone("persistentvolumeclaims", "default/data-db-0")],
        [node(), claim(going=True), pod("n1")],  # a user deletes its claim
        [
            node(),
            node(name="n2"),
            claim(),
            pod("n2", ready=True, uid="b", name="db-1"),
            pod("n1"),
        ],  # it is shared
        [OFF, *RUNNING, node("Unknown"), pod("n1")],  # the only node: evictions are stopped
        [
            node(),
            OFF,
            node("Unknown"),
            claim(),
            pod("n1", going=True),
        ],  # no operator has said that it is dead
    ],
)
def test_what_a_user_has_made_so_is_not_waited_for(story: list[Event]):
    assert late(*story, 1000.0) == []


def test_a_pod_uses_the_claim_that_was_made_for_its_generic_ephemeral_volume():
    volumes = [{"name": "data", "ephemeral": {"volumeClaimTemplate": {}}}]
    spec = {"nodeName": "n1", "volumes": volumes}
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    metadata = {"name": "db-0", "uid": "a"}
    user = written("pods", "default/db-0", metadata=metadata, spec=spec, status=status)
    own, status = {"volumeName": "v", "storageClassName": "disk"}, {"phase": "Bound"}
    claimed = written("persistentvolumeclaims", "default/db-0-data", spec=own, status=status)
    uses = [node(), claimed, user, record(attached=True), MOUNTED]
    assert late(*uses, 1000.0) == []
    left = late(*uses, gone("pods", "default/db-0"), LIMITS["unmounted"] + 15.0)
    assert any("unmounted" in each for each in left), left
    assert any("given up" in each for each in left), left


def test_a_pod_uses_what_its_claim_was_bound_to_though_a_user_has_stripped_the_claim():
    stripped = gone("persistentvolumeclaims", "default/data-db-0")
    uses = [node(), claim(), pod("n1", ready=True), record(attached=True), MOUNTED, stripped]
    assert late(*uses, 1000.0) == []
    left = late(*uses, gone("pods", "default/db-0"), LIMITS["unmounted"] + 15.0)
    assert any("unmounted" in each for each in left), left


def test_a_volume_is_not_waited_for_while_a_pod_names_its_claim_and_has_lost_the_next_one_of_that_name():
    """The pod never had it, and says no more than a name; its node does not answer (60947 of the swarm)."""
    lost = [node(), volume("Released"), claim("w", uid="d"), pod("n1", going=True), node("Unknown")]
    stripped, limit = gone("persistentvolumeclaims", "default/data-db-0"), LIMITS["volume-gone"] + 15.0
    assert _volumes(*lost, stripped, 1000.0) == 0
    assert _volumes(*lost, 1000.0) == 1, "the next claim is there, and is the pod's"
    assert _volumes(*lost, stripped, 1000.0, gone("pods", "default/db-0"), limit) == 1
    assert _volumes(*lost, stripped, pod("n1", name="web-0"), pod(), limit) == 0, "another pod names it, too"
    assert _volumes(*lost, stripped, pod(), limit) == 1, "one without a node has nothing"


def _volumes(*story: Event | float) -> int:
    """How many volumes are waited for too long."""
    return sum("which is to be deleted" in each for each in late(*story))


def test_a_claim_that_another_party_holds_is_not_waited_for_until_it_lets_go():
    metadata = {"uid": "c", "deletionTimestamp": "t", "finalizers": ["example.com/hold"]}
    status = {"phase": "Bound"}
    held = written("persistentvolumeclaims", "default/data-db-0", metadata=metadata, status=status)
    assert late(node(), held, 1000.0) == []
    assert len(late(node(), held, 100.0, claim(going=True), LIMITS["claim-gone"] + 15.0)) == 1


@pytest.mark.parametrize(("signed", "waits"), [("3", True), ("3 7", False)])
def test_a_claim_that_several_processes_have_asked_for_is_not_waited_for_until_they_let_go(
    signed: str, waits: bool
):
    metadata = {"uid": "c", "finalizers": [BEGUN], "annotations": {ASKED_BY: signed}}
    going = {"metadata": metadata | {"deletionTimestamp": "t"}, "status": {"phase": "Pending"}}
    asked = written("persistentvolumeclaims", "default/data-db-0", **going)
    assert bool(late(node(), asked, LIMITS["claim-gone"] + 15.0)) == waits
    assert len(late(node(), asked, 100.0, claim(going=True), LIMITS["claim-gone"] + 15.0)) == 1


@pytest.mark.parametrize(
    "there",
    [
        [],
        [snapshot(ready=False)],
        [snapshot(ready=True), ("store.deleted", snapshot(ready=True)[1])],
    ],
)
def test_a_copy_of_what_is_not_there_is_not_waited_for(there: list[Event]):
    assert late(node(), *there, copy(), 1000.0) == []


def test_a_copy_of_a_claim_is_waited_for_when_that_is_bound_and_is_not_going_or_is_kept_for_it():
    of_claim, limit = copy("PersistentVolumeClaim", "data-db-0"), LIMITS["copied"] + 15.0
    assert late(node(), claim("", phase="Lost"), of_claim, limit) == []
    assert late(node(), claim(going=True), of_claim, limit) == []
    assert len(late(node(), claim(), of_claim, limit)) == 1


def test_a_claim_of_which_a_snapshot_or_a_copy_is_being_made_is_not_waited_for():
    going, limit = claim(going=True), LIMITS["claim-gone"] + 15.0
    assert late(node(), snapshot(ready=False), going, 1000.0) == []
    assert late(node(), copy("PersistentVolumeClaim", "data-db-0"), going, 1000.0) == []
    assert len(late(node(), snapshot(ready=False), going, 100.0, snapshot(ready=True), limit)) == 1


def test_an_attachment_that_only_another_party_holds_and_who_needs_its_volume_are_not_waited_for():
    hold, ours = "example.com/hold", "mooring.dev/attacher"
    there = [node(), claim(), volume("Bound"), pod("n1")]
    held = [*there, record(going=True, finalizers=(hold,))]
    both = [*there, record(going=True, finalizers=("example.com/guard", hold))]
    assert late(*held, 1000.0) == late(*both, 1000.0) == []
    assert len(late(*held, 100.0, gone(RECORDS, "va-n1"), LIMITS["running"] + 15.0)) == 1
    detaches = late(*there, record(going=True, finalizers=(ours, hold)), LIMITS["detached"] + 15.0)
    assert len(detaches) == 1


def test_a_pod_waits_for_a_node_that_has_the_driver_of_its_volume():
    source = {"csi": {"volumeHandle": "v"}}
    of_driver = written("persistentvolumes", "v", spec=source, status={"phase": "Bound"})
    drivers = {"drivers": [{"name": "csi.example.com"}]}
    without = [node(), claim(), of_driver, pod()]
    there = written("csinodes.storage.k8s.io", "n1", spec=drivers)
    assert late(*without, 1000.0) == []
    assert len(late(*without, 100.0, there, LIMITS["placed"] + 15.0)) == 1


def daemon(only_on: str, *tolerated: str) -> Event:
    """A pod that may go to one node alone, as a DaemonSet's."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [only_on]}]}
    affinity = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    }
    tolerations = [{"key": each, "operator": "Exists", "effect": "NoSchedule"} for each in tolerated]
    spec = {"affinity": affinity, "tolerations": tolerations}
    return written("pods", "default/log-1", metadata={"uid": "d"}, spec=spec)


@pytest.mark.parametrize("lazy_claims", [False, True])
def test_a_pod_that_may_go_to_one_node_alone_is_waited_for_if_that_one_takes_it(lazy_claims: bool):
    settings = Settings(lazy_claims=lazy_claims, nodes=frozenset({"n1", "n2"}))
    cordon, limit = "node.kubernetes.io/unschedulable", bounds(settings)["placed"] + 15
    foreign = {"key": "example.com/x", "effect": "NoSchedule"}

    def waits(one: Event, *tolerated: str) -> bool:
        story = [node(name="n2"), one, daemon("n1", *tolerated), limit]
        return any("gets a node" in each for each in late(*story, settings=settings))

    assert waits(node())
    assert not waits(node("Unknown")), "the other node, which takes pods, is not for it"
    assert not waits(node(unschedulable=True))
    assert waits(node(unschedulable=True), cordon), "it is placed on a cordoned node all the same"
    assert not waits(node(taints=[foreign]), cordon)
    assert waits(node(taints=[foreign]), foreign["key"])


def test_what_a_storage_has_taken_away_is_found_by_a_verification_and_mounted_after_a_backoff():
    taken = [*WAITS_FOR_NODE, step("array-takes-away", "n1"), 1.0, over("array-takes-away", "n1")]
    assert late(*taken, 45.0 + 300.0 + 122.0 + LIMIT - 20.0) == []
    assert len(late(*taken, 45.0 + 300.0 + 122.0 + LIMIT + 20.0)) == 1


def test_a_node_whose_driver_has_left_is_verified_when_that_is_back():
    taken = [*WAITS_FOR_NODE, step("array-takes-away", "n1"), 1.0, over("array-takes-away", "n1")]
    left = [*taken, 250.0, step("driver-leaves", "n1"), 60.0, over("driver-leaves", "n1")]
    assert late(*left, 45.0 + 300.0 + 122.0 + LIMIT - 20.0) == []
    assert len(late(*left, 45.0 + 300.0 + 122.0 + LIMIT + 20.0)) == 1


@pytest.mark.parametrize(
    ("what", "part"), [("cut-store", "server"), ("array-fails", "array"), ("cut", "attaching")]
)
def test_what_a_fault_has_kept_from_a_verification_is_found_by_the_next_one(what: str, part: str):
    taken = [*WAITS_FOR_NODE, step("array-takes-away", "n1"), 1.0, over("array-takes-away", "n1")]
    kept = [*taken, 250.0, step(what, part, 1.0), 1.0, over(what, part)]
    assert late(*kept, 45.0 + 300.0 + 122.0 + LIMIT - 20.0) == []
    assert len(late(*kept, 45.0 + 300.0 + 122.0 + LIMIT + 20.0)) == 1


def test_what_was_attached_after_an_operators_word_about_a_node_that_is_gone_waits_for_another_word():
    word = ("plan.declared", {"node": "n1", "out": True})
    dead = [node(), OFF, gone("nodes", "n1"), word]
    assert any("given up" in each for each in late(*dead[:3], record(), word, LIMITS["given-up"] + 15.0))
    assert late(*dead, 1.0, record(), 1000.0) == []
    assert any(
        "given up" in each for each in late(*dead, 1.0, record(), 9.0, word, LIMITS["given-up"] + 15.0)
    )


def test_a_slow_mount_explains_what_was_begun_under_it():
    slow = [*WAITS_FOR_NODE, step("slow-mount", "n1", 400.0), 1.0, over("slow-mount", "n1")]
    assert late(*slow, 400.0 + LIMIT) == []
    assert len(late(*slow, 46.0 + 400.0 + LIMIT + 15.0)) == 1


def test_the_timer_of_a_forced_detach_counts_for_storage_that_is_known_to_cut_a_node_off():
    assert Settings.of_scenario(Scenario(driver="ebs")).force_detach_after_s == 360
    assert Settings.of_scenario(Scenario(driver="csi", storage="cloud")).force_detach_after_s == 0


def test_what_no_pod_uses_on_a_silent_node_is_given_up_when_the_policys_timer_has_run_out():
    policy = Settings(force_detach_after_s=60.0)
    limit = bounds(policy)["timed-out"]
    silent = [OFF, volume("Bound"), node("Unknown"), record(attached=True)]
    assert late(*silent, limit - 10, settings=policy) == []
    assert len(late(*silent, limit + 15, settings=policy)) == 1
    assert late(*silent, limit + 15) == [], "there is no timer"
    undefined = [*silent, gone("persistentvolumes", "v")]
    assert late(*undefined, limit + 15, settings=policy) == [], (
        "nothing says that its storage cuts a node off"
    )
    used = [OFF, node("Unknown"), claim(), pod("n1", going=True), record(attached=True)]
    assert late(*used, limit + 15, settings=policy) == [], "a pod is there"


def test_a_pod_whose_template_has_a_mistake_need_not_become_ready():
    broken = written(
        "pods",
        "default/db-0",
        metadata={"uid": "a", "annotations": {BROKEN: "yes"}},
        spec={"nodeName": "n1"},
    )
    assert late(node(), broken, LIMITS["running"] + 15) == []


def test_the_next_pod_of_a_name_is_waited_for_anew():
    story = [*WAITS_FOR_NODE, LIMIT - 10.0, pod("n1", uid="b"), LIMIT - 10.0]
    assert late(*story) == []


def test_each_bound_is_a_sum_whose_summands_have_reasons():
    known = acts(Settings())
    assert all(act in known and known[act].reason for _, made_of in WAITS.values() for act in made_of)
    assert max(limit for kind, limit in LIMITS.items() if kind != "left-behind") < 180, (
        "six minutes are found"
    )


def test_a_request_to_a_csi_driver_counts_as_outstanding_for_longer():
    by_driver = bounds(Settings.of_scenario(Scenario(driver="csi")))
    assert by_driver["detached"] == LIMITS["detached"] + 30
    assert by_driver["left-behind"] == by_driver["detached"], "the VolumeAttachment names the driver"
    assert by_driver["given-up"] == LIMITS["given-up"]


def test_the_worst_wait_is_told_with_its_share_and_the_fault_before_it():
    moment = [0.0]
    trace = Trace(lambda: moment[0])
    checks = Checks(trace, Settings())
    for kind, fields in [*WAITS_FOR_NODE, step("kill", "n1"), over("kill", "n1")]:
        moment[0] += 1.0
        trace("x", kind, **fields)
    for _ in range(20):
        moment[0] += 5.0
        for name in ("n1", "n2"):
            kind, fields = _lease(f"kube-node-lease/{name}", str(moment[0]))
            trace("x", kind, **fields)
    worst = checks.worst_wait()
    assert worst is not None
    assert 0 < worst.share < 1
    assert "kill of n1" in str(worst)
    assert "pod default/db-0 is ready" in str(worst)


def test_waits_that_each_end_at_once_are_not_taken_for_one_though_nothing_happens_between_them():
    ended = ("store.deleted", gone("pods", "default/db-0")[1] | {"_after": 20.0})
    follow = [ended, UNMOUNTED, MOUNTED, pod("n1", ready=True)]
    found = late(*RUNNING, MOUNTED, *(follow * 10))
    assert not any("unmounted" in each for each in found), found


def test_a_fault_of_a_node_whose_ending_pod_has_the_volume_explains_that_another_pod_waits_for_a_place():
    def waits(*others: Event) -> bool:
        found = late(node(), node(name="n2"), claim(), *others, OFF, node("Unknown"), pod(), 400.0)
        return any("gets a node" in each for each in found)

    assert waits()
    assert not waits(pod("n1", ready=True, going=True, uid="b", name="db-1"))
    assert waits(pod("n2", ready=True, going=True, uid="b", name="db-1")), "of a node that no fault strikes"


def test_a_claim_that_waits_for_its_first_consumer_is_not_bound_for_a_pod_that_has_a_node_already():
    lazy = Settings(lazy_claims=True)
    limit = bounds(lazy)["bound"] + 15
    csi_node = written("csinodes.storage.k8s.io", "n1", spec={"drivers": [{"name": "ebs.csi.aws.com"}]})
    for place, found in (("", True), ("n1", False)):
        story = [node(), csi_node, claim("", phase="Pending"), pod(place, ready=bool(place))]
        assert any("is bound" in each for each in late(*story, limit, settings=lazy)) is found
