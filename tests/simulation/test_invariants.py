"""Each checker fires on a trace that violates it, and on no trace that only nearly does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from mooring.kube.errors import Conflict
from mooring.simulation.checks.invariants import Checks, check
from mooring.simulation.checks.settings import Settings
from mooring.simulation.cluster.other_parties import GUARD, MARK
from mooring.simulation.engine.trace import Trace
from mooring.simulation.parts.storage_targets import target_of
from mooring.volumes.names import FENCE_EVIDENCE, FORCE_DETACH_SINCE

RECORDS = "volumeattachments.storage.k8s.io"
GRANTED = {"mooring.dev/volume-name": "v", "mooring.dev/attach-epoch": "2"}
Events = list[tuple[str, dict[str, Any]]]

ATTACHED = {"volume": "v", "node": "n1", "epoch": 1}
MOUNTED = {"volume": "v", "node": "n1", "attached": True, "epoch": 1, "device": "/dev/a", "wanted": "v"}
THERE = {"volume": "v", "node": "n1"}
POD = {"pod": "db-0", "uid": "a", "node": "n1", "disks": "v"}
OTHER = {"pod": "db-0", "uid": "b", "node": "n2", "disks": "v"}
ANOTHER = {"pod": "web-0", "uid": "c", "node": "n1", "disks": "v"}
WRITTEN = {
    "volume": "v",
    "node": "n1",
    "mounted": True,
    "committed": True,
    "under": 1,
    "epoch": 1,
    "found": 0,
}
MADE = {"volume": "v", "name": "v", "id": "vol-1"}
DEVICE = {"volume": "v", "node": "n1", "device": "/dev/xvdba", "state": "attached"}
DECLARED = {"node": "n1", "out": True}


def written(resource: str, name: str, body: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return "store.written", {"resource": resource, "name": name, "_body": encoded({"metadata": {}, **body})}


def record(name: str = "va", **more: Any) -> tuple[str, dict[str, Any]]:
    annotations = {"mooring.dev/volume-name": "v"}
    body = {"metadata": {"annotations": annotations} | more, "spec": {"nodeName": "n1"}}
    return written(RECORDS, name, body)


def record_gone() -> tuple[str, dict[str, Any]]:
    return "store.deleted", record()[1]


def says(attached: bool, **more: Any) -> tuple[str, dict[str, Any]]:
    body = msgspec.json.decode(record(**more)[1]["_body"]) | {"status": {"attached": attached}}
    return written(RECORDS, "va", body)


def tells(message: str) -> tuple[str, dict[str, Any]]:
    return "told.event", {"about": "x", "reason": "R", "_message": message}


def claim(uid: str, volume: str, name: str = "default/c") -> tuple[str, dict[str, Any]]:
    body = {"metadata": {"uid": uid}, "spec": {"volumeName": volume}, "status": {"phase": "Bound"}}
    return written("persistentvolumeclaims", name, body)


def claim_gone(uid: str) -> tuple[str, dict[str, Any]]:
    return gone("persistentvolumeclaims", "default/c", {"metadata": {"uid": uid}})


def volume_of(uid: str, phase: str = "Bound") -> tuple[str, dict[str, Any]]:
    body = {
        "spec": {"claimRef": {"namespace": "default", "name": "c", "uid": uid}},
        "status": {"phase": phase},
    }
    return written("persistentvolumes", "v", body)


def is_lost(uid: str, volume: str = "v") -> tuple[str, dict[str, Any]]:
    body = {
        "metadata": {"uid": uid, "name": "c"},
        "spec": {"volumeName": volume},
        "status": {"phase": "Lost"},
    }
    return written("persistentvolumeclaims", "default/c", body)


def of_job(phase: str, uid: str = "a") -> tuple[str, dict[str, Any]]:
    owner = {"kind": "Job", "name": "j", "uid": "j", "controller": True}
    metadata = {"uid": uid, "name": uid, "ownerReferences": [owner]}
    return written("pods", f"default/{uid}", {"metadata": metadata, "status": {"phase": phase}})


def counts(**status: int) -> tuple[str, dict[str, Any]]:
    return written("jobs.batch", "default/j", {"metadata": {"uid": "j", "name": "j"}, "status": status})


def raised(error: Exception) -> tuple[str, dict[str, Any]]:
    return "truth.raised", {"where": "work failed", "error": type(error).__name__, "_error": error}


def ordered(
    replicas: int = 3, status: dict[str, Any] | None = None, **more: Any
) -> tuple[str, dict[str, Any]]:
    spec = {"replicas": replicas, "podManagementPolicy": "OrderedReady"} | more
    body = {
        "metadata": {"uid": "s", "name": "db", "namespace": "default", "generation": replicas},
        "spec": spec,
        "status": status or {},
    }
    return written("statefulsets.apps", "default/db", body)


def member(number: int, ready: bool = True, uid: str = "", **more: Any) -> tuple[str, dict[str, Any]]:
    owner = {"kind": "StatefulSet", "name": "db", "uid": "s", "controller": True}
    metadata = {"name": f"db-{number}", "namespace": "default", "uid": uid or f"u{number}"} | more
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    body = {
        "metadata": {"ownerReferences": [owner]} | metadata,
        "spec": {"nodeName": "n1"},
        "status": {"phase": "Running", "conditions": conditions},
    }
    return written("pods", f"default/db-{number}", body)


def owner(uid: str = "o", **more: Any) -> tuple[str, dict[str, Any]]:
    metadata = {"name": "web", "namespace": "default", "uid": uid} | more
    return written("deployments.apps", "default/web", {"metadata": metadata})


def owned(*owners: str) -> tuple[str, dict[str, Any]]:
    names = [
        {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": each} for each in owners or "o"
    ]
    metadata = {"name": "web-1", "namespace": "default", "uid": "a", "ownerReferences": names}
    kind, fields = written("replicasets.apps", "default/web-1", {"metadata": metadata})
    return kind, fields | {"version": 7}


def collects(version: int = 7) -> tuple[str, dict[str, Any]]:
    asked = {"resource": "replicasets", "name": "default/web-1", "method": "DELETE", "version": str(version)}
    return "asked.write", asked | {
        "life": "watching 1 garbage-collector",
        "uid": True,
        "sub": "",
        "erases": False,
    }


def marked(mark: str, uid: str = "c") -> tuple[str, dict[str, Any]]:
    name = {"resource": "persistentvolumeclaims", "name": "default/c"}
    return "plan.marked", name | {"uid": uid, "mark": mark}


def held(uid: str = "c", **metadata: Any) -> tuple[str, dict[str, Any]]:
    return written("persistentvolumeclaims", "default/c", {"metadata": {"uid": uid} | metadata})


LISTED_BY_ANOTHER: tuple[str, dict[str, Any]] = (
    "plan.marked",
    {"resource": "nodes", "name": "n1", "uid": "n", "mark": "volume"},
)
TOLD_OF_ANOTHER: tuple[str, dict[str, Any]] = (
    "told.event",
    {"about": "n1", "reason": "AnotherAttachDetachController", "_message": ""},
)
NUMBERS = ["none", "one", "two", "three"]
ONE, TWO = {"controller-revision-hash": "one"}, {"controller-revision-hash": "two"}


def updated(history: int, current: int = 0, kind: str = "statefulsets.apps") -> tuple[str, dict[str, Any]]:
    """A set whose pods are updated from the current revision to the second one."""
    metadata = {"uid": "s", "name": "db", "namespace": "default"}
    status = {"currentRevision": NUMBERS[current], "updateRevision": "two"}
    body = {"metadata": metadata, "spec": {"revisionHistoryLimit": history}}
    return written(kind, "default/db", body | ({} if kind.startswith("daemon") else {"status": status}))


def revision(number: int, prefix: str = "") -> tuple[str, dict[str, Any]]:
    owner = {"kind": "StatefulSet", "name": "db", "uid": "s", "controller": True}
    name = f"{prefix}{NUMBERS[number]}"
    body = {"metadata": {"name": name, "ownerReferences": [owner]}, "revision": number}
    return written("controllerrevisions.apps", f"default/{name}", body)


def deletes_revision(number: int, prefix: str = "", who: str = "statefulset-controller") -> tuple[str, Any]:
    asked = {"resource": "controllerrevisions", "name": f"default/{prefix}{NUMBERS[number]}"}
    asked |= {"method": "DELETE", "life": f"placing 1 {who}", "version": None}
    return "asked.write", asked | {"uid": True, "sub": "", "erases": False}


def takes(number: int, life: str = "placing 1 statefulset-controller") -> tuple[str, dict[str, Any]]:
    return "asked.write", {
        "resource": "pods",
        "name": f"default/db-{number}",
        "method": "DELETE",
        "life": life,
        "sub": "",
        "erases": False,
        "uid": True,
        "version": None,
    }


def at(moment: float, *events: tuple[str, dict[str, Any]]) -> list[tuple[float, tuple[str, dict[str, Any]]]]:
    return [(moment, each) for each in events]


def budget(disrupted: dict[str, str]) -> tuple[str, dict[str, Any]]:
    spec = {"selector": {"matchExpressions": [{"key": "apart", "operator": "DoesNotExist"}]}}
    body = {"metadata": {"uid": "q", "name": "q"}, "spec": spec, "status": {"disruptedPods": disrupted}}
    return written("poddisruptionbudgets.policy", "default/q", body)


def pod(phase: str, **more: Any) -> tuple[str, dict[str, Any]]:
    body = {"metadata": {"uid": "a"} | more, "spec": {"nodeName": "n1"}, "status": {"phase": phase}}
    return written("pods", "default/db-0", body)


def node(
    *,
    tainted: bool,
    seen: str = "",
    ready: str = "Unknown",
    has: Sequence[str] = ("disk/v",),
    wants: Sequence[str] = (),
) -> tuple[str, dict[str, Any]]:
    taints = [{"key": "node.kubernetes.io/out-of-service", "timeAdded": "t"}] if tainted else []
    annotations = {"mooring.dev/out-of-service-seen": seen} if seen else {}
    status = {
        "conditions": [{"type": "Ready", "status": ready}],
        "volumesAttached": [{"name": name} for name in has],
        "volumesInUse": [*has, *wants],
    }
    return written(
        "nodes",
        "n1",
        {"metadata": {"annotations": annotations}, "spec": {"taints": taints}, "status": status},
    )


def gone(resource: str, name: str, body: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
    return "store.deleted", {
        "resource": resource,
        "name": name,
        "_body": encoded({"metadata": {}, **(body or {})}),
    }


def pod_gone() -> tuple[str, dict[str, Any]]:
    return gone("pods", "default/db-0", {"metadata": {"uid": "a"}, "spec": {"nodeName": "n1"}})


def asks(version: int | None = None, *, uid: bool = True, life: str = "x 1") -> tuple[str, dict[str, Any]]:
    fields = {
        "life": life,
        "resource": "pods",
        "name": "default/db-0",
        "method": "PATCH",
        "sub": "",
        "erases": False,
        "uid": uid,
        "version": version,
    }
    return "asked.write", fields


def answered(version: int) -> tuple[str, dict[str, Any]]:
    return "asked.answered", {"life": "x 1", "resource": "pods", "name": "default/db-0", "version": version}


def one_pod_volume() -> tuple[str, dict[str, Any]]:
    return written("persistentvolumes", "v", {"spec": {"accessModes": ["ReadWriteOncePod"]}})


def exclusive_volume(*modes: str) -> tuple[str, dict[str, Any]]:
    return written("persistentvolumes", "v", {"spec": {"accessModes": modes or ("ReadWriteOnce",)}})


FORCED: tuple[str, dict[str, Any]] = ("plan.forced", {"uid": "a"})


def lock(epoch: int, **closed: Any) -> tuple[str, dict[str, Any]]:
    text = encoded({"epoch": epoch, "closed": closed}).decode()
    return written("persistentvolumes", "v", {"metadata": {"annotations": {"mooring.dev/attached-to": text}}})


def encoded(body: dict[str, Any]) -> bytes:
    return msgspec.json.encode(body)


def asked(act: str, node: str = "n1", by: str = "x 1") -> dict[str, Any]:
    return {"volume": "v", "node": node, "act": act, "by": by}


def config_map(edition: str) -> tuple[str, dict[str, Any]]:
    return written("configmaps", "default/c", {"data": {"edition": edition, "copy": edition}})


def shown(edition: str, copy: str = "", **more: Any) -> tuple[str, dict[str, Any]]:
    files = {"edition": edition, "copy": copy or edition}
    return "truth.shown", {"uid": "a", "node": "n1", "volume": "v", "life": 1, "_files": files} | more


STARTED = ("truth.started", {"pod": "db-0", "uid": "a", "node": "n1", "container": "main", "disks": ""})
SHOWS = written(
    "pods",
    "default/db-0",
    {
        "metadata": {"uid": "a", "name": "db-0"},
        "spec": {"volumes": [{"name": "v", "configMap": {"name": "c"}}]},
    },
)
"""The pod shows a ConfigMap."""


def wait(seconds: float) -> tuple[str, dict[str, Any]]:
    return "wait", {"seconds": seconds}


READY = node(tainted=False, ready="True", has=())
"""The node answers, and has nothing."""
USES = node(tainted=False, ready="True")
"""The node answers, and says that it uses the volume."""
SILENT = node(tainted=False)
KILLED = ("truth.killed", {"uid": "a", "node": "n1", "running": 1})
CUT = ("plan.step", {"what": "cut", "on": "n1", "value": 60.0, "how": 0})
MADE_ATTACHED: Events = [
    *(record(), ("truth.begin", asked("attach"))),
    *(("truth.attached", ATTACHED), ("truth.end", asked("attach"))),
]


def lease(renewed: str) -> tuple[str, dict[str, Any]]:
    return written("leases.coordination.k8s.io", "kube-node-lease/n1", {"spec": {"renewTime": renewed}})


def unreachable() -> tuple[str, dict[str, Any]]:
    taint = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "timeAdded": "t"}
    status = {"conditions": [{"type": "Ready", "status": "Unknown"}]}
    return written("nodes", "n1", {"spec": {"taints": [taint]}, "status": status})


def tolerant(seconds: float, *, evicted: bool = False) -> tuple[str, dict[str, Any]]:
    toleration = {"key": "node.kubernetes.io/unreachable", "tolerationSeconds": seconds}
    conditions = [{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}]
    spec = {"nodeName": "n1", "tolerations": [toleration]}
    status = {"phase": "Running", "conditions": conditions if evicted else []}
    return written("pods", "default/db-0", {"metadata": {"uid": "a"}, "spec": spec, "status": status})


def ends(grace: int) -> tuple[str, dict[str, Any]]:
    return pod("Running", deletionTimestamp="t", deletionGracePeriodSeconds=grace)


def with_claim() -> tuple[str, dict[str, Any]]:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}]
    body = {"metadata": {"uid": "a"}, "spec": {"nodeName": "n1", "volumes": volumes}}
    return written("pods", "default/db-0", body)


def is_evicted(uid: str = "a") -> tuple[str, dict[str, Any]]:
    body = {"metadata": {"uid": uid}, "status": {"phase": "Failed", "reason": "Evicted"}}
    return written("pods", "default/db-0", body)


ASKS: tuple[str, dict[str, Any]] = ("truth.begin", asked("attach", by="attaching 1"))
ASKED_IN_VAIN: Events = [ASKS, ("truth.end", asked("attach", by="attaching 1")), wait(2)]


def says_why(message: str, **more: Any) -> tuple[str, dict[str, Any]]:
    body = msgspec.json.decode(record(**more)[1]["_body"]) | {"status": {"attachError": {"message": message}}}
    return written(RECORDS, "va", body)


SWEPT: tuple[str, dict[str, Any]] = ("told.swept", {"by": 1, "volume": "v", "node": "", "action": ""})


CASES: dict[str, tuple[Events, Events]] = {
    "S1": (
        [("truth.started", POD), ("truth.started", OTHER)],
        [("truth.started", POD), ("truth.ended", POD), ("truth.started", OTHER)],
    ),
    "S1'": (
        [exclusive_volume(), ("truth.started", POD), FORCED, ("truth.started", ANOTHER)],
        [exclusive_volume(), ("truth.started", POD), ("truth.started", ANOTHER), FORCED],
    ),
    "S4": (
        [("truth.mounted", MOUNTED), ("truth.mounted", MOUNTED | {"node": "n2"})],
        [("truth.mounted", MOUNTED), ("truth.unmounted", THERE), ("truth.mounted", MOUNTED | {"node": "n2"})],
    ),
    "S4'": (
        [("truth.written", WRITTEN | {"epoch": 2})],
        [("truth.written", WRITTEN | {"epoch": 2, "committed": False})],
    ),
    "S6": ([("truth.mounted", MOUNTED | {"attached": False})], [("truth.mounted", MOUNTED)]),
    "S7": (
        [("truth.mounted", MOUNTED), ("truth.begin", asked("detach"))],
        [("truth.mounted", MOUNTED), ("truth.unmounted", THERE), ("truth.begin", asked("detach"))],
    ),
    "S7'": (
        [("truth.mounted", MOUNTED), ("truth.unmounted", THERE | {"used": True})],
        [("truth.mounted", MOUNTED), ("truth.unmounted", THERE | {"used": False})],
    ),
    "S8": (
        [
            *(record(), ("truth.attached", ATTACHED)),
            *(("truth.begin", asked("detach")), ("truth.begin", asked("attach"))),
        ],
        [
            *(record(), ("truth.attached", ATTACHED)),
            *(("truth.begin", asked("detach")), ("truth.begin", asked("detach"))),
            ("truth.begin", asked("attach", by="its successor")),
            *(("truth.detached", ATTACHED), ("truth.end", asked("detach"))),
            ("truth.begin", asked("attach", "n2")),  # the other detach is late, and has nothing to do
        ],
    ),
    "S9": (
        [("truth.created", MADE), ("truth.created", MADE | {"volume": "v vol-2", "id": "vol-2"})],
        [("truth.created", MADE), ("truth.deleted", MADE), ("truth.created", MADE | {"id": "vol-2"})],
    ),
    "S2": ([asks(uid=False)], [asks()]),
    "S3": ([pod("Running"), pod("Pending")], [pod("Pending"), pod("Running"), pod("Failed")]),
    "S5": (
        [one_pod_volume(), ("truth.started", POD), ("truth.started", ANOTHER)],
        [one_pod_volume(), ("truth.started", POD), ("truth.ended", POD), ("truth.started", ANOTHER)],
    ),
    "S10": (
        [("truth.mounted", MOUNTED | {"wanted": "w"})],
        [("truth.mounted", MOUNTED), ("truth.mounted", MOUNTED | {"volume": "w", "wanted": "w"})],
    ),
    "S15": (
        [claim("a", "v"), ("truth.started", POD), gone("persistentvolumeclaims", "default/c")],
        [
            claim("a", "v"),
            ("truth.started", POD),
            ("truth.ended", POD),
            gone("persistentvolumeclaims", "default/c"),
        ],
    ),
    "S37": (
        [claim("c", "v"), with_claim(), ("truth.started", POD | {"disks": ""})],
        [claim("c", "v"), with_claim(), ("truth.started", POD)],
    ),
    "S38": (
        [node(tainted=False), tells("volume v: node n1 does not exist any more; say so")],
        [
            node(tainted=False),
            gone("nodes", "n1"),
            tells("volume v: node n1 does not exist any more; say so"),
        ],
    ),
    "S19": (
        [answered(5), asks(4)],
        [answered(5), asks(5), asks(4, life="x 2"), answered(4), asks(4)],
    ),
    "S20": (
        [record(), ("truth.deleting", {"volume": "v"})],
        [READY, record(), record_gone(), ("truth.deleting", {"volume": "v"})],
    ),
    "S20'": (
        [record(), ("truth.attached", ATTACHED), ("truth.begin", asked("attach", "n2"))],
        [
            *(record(), ("truth.attached", ATTACHED), ("truth.begin", asked("attach"))),
            *(
                ("truth.end", asked("attach")),
                ("truth.detached", ATTACHED),
                ("truth.begin", asked("attach", "n2")),
            ),
        ],
    ),
    "S11": (
        [record(annotations=GRANTED), lock(3), ("truth.mounted", MOUNTED)],
        [record(annotations=GRANTED), lock(2), ("truth.mounted", MOUNTED), lock(3)],
    ),
    "S12": (
        [claim("a", "v"), claim("a", "w")],
        [claim("a", "v"), claim("a", "v"), claim("b", "w", "default/d")],
    ),
    "S13": (
        [READY, record(), ("truth.attached", ATTACHED), record_gone()],
        [READY, record(), ("truth.attached", ATTACHED), ("truth.detached", ATTACHED), record_gone()],
    ),
    "S14": (
        [claim("a", "pvc-a"), ("truth.deleted", {"volume": "pvc-a"})],
        [
            claim("a", "pvc-a"),
            gone("persistentvolumeclaims", "default/c"),
            ("truth.deleted", {"volume": "pvc-a"}),
        ],
    ),
    "S16": (
        [("truth.written", WRITTEN), ("truth.written", WRITTEN)],
        [("truth.written", WRITTEN), ("truth.written", WRITTEN | {"found": 1})],
    ),
    "S21": (
        [of_job("Succeeded"), counts(succeeded=2)],
        [of_job("Succeeded"), counts(succeeded=1), of_job("Failed", "b"), counts(succeeded=1, failed=1)],
    ),
    "S22": (
        [pod("Running"), budget({"db-0": "2030-01-01T00:00:00Z"}), budget({})],
        [
            pod("Running"),
            budget({"db-0": "2030-01-01T00:00:00Z"}),
            pod("Running", deletionTimestamp="2030-01-01T00:00:01Z"),
            budget({}),
        ],
    ),
    "S31": (
        [ordered(), member(0, ready=False), member(1)],
        [ordered(), member(0), member(1)],
    ),
    "S23": (
        [USES, record(), record(deletionTimestamp="now")],
        [USES, record(), node(tainted=False, ready="True", has=()), record(deletionTimestamp="now")],
    ),
    "S24": (
        [pod("Running"), ("truth.started", POD), pod_gone()],
        [pod("Running"), ("truth.started", POD), ("truth.ended", POD), pod_gone()],
    ),
    "S25": (
        [READY, lease("1"), wait(30), lease("2"), wait(30), SILENT],
        [READY, lease("1"), CUT, wait(30), lease("1"), wait(11), SILENT],
    ),
    "S43": (
        [marked("label"), held(labels={})],
        [marked("label"), held(labels={MARK: "yes"})],
    ),
    "S43'": (
        [wait(60), LISTED_BY_ANOTHER, wait(31), held()],
        [wait(60), LISTED_BY_ANOTHER, TOLD_OF_ANOTHER, LISTED_BY_ANOTHER, wait(31), held()],
    ),
    "S42": (
        [owner(), owned(), collects()],
        [owner(), owned(), gone("deployments.apps", "default/web", {"metadata": {}}), collects()],
    ),
    "S44": (
        [updated(history=0), revision(1), revision(2), member(0, labels=ONE), wait(6), deletes_revision(1)],
        [updated(history=0), revision(1), revision(2), member(0, labels=TWO), wait(6), deletes_revision(1)],
    ),
    "S46": (
        [config_map("0"), SHOWS, shown("0"), STARTED, config_map("1"), wait(11), SHOWS],
        [
            config_map("0"),
            SHOWS,
            shown("0"),
            STARTED,
            config_map("1"),
            wait(9),
            SHOWS,
            shown("1"),
            wait(9),
            SHOWS,
        ],
    ),
    "S45": (
        [claim("a", "v"), volume_of("a", "Released")],
        [claim("a", "v"), claim_gone("a"), volume_of("a", "Released")],
    ),
    "S41": (
        [record(), *ASKED_IN_VAIN, ASKS],
        [record(), *ASKED_IN_VAIN, says_why("it has no room"), ASKS],
    ),
    "S40": (
        [("truth.filled", {"uid": "b", "pod": "default/db-1"}), is_evicted()],
        [("truth.filled", {"uid": "a", "pod": "default/db-0"}), is_evicted()],
    ),
    "S26": (
        [unreachable(), tolerant(30), wait(20), tolerant(30, evicted=True)],
        [unreachable(), tolerant(30), wait(30), tolerant(30, evicted=True)],
    ),
    "S27": (
        [ends(10), ("truth.signalled", {"uid": "a"}), wait(5), KILLED],
        [ends(10), ("truth.signalled", {"uid": "a"}), wait(5), ends(5), KILLED],
    ),
    "S28": (
        [*MADE_ATTACHED, ("truth.begin", asked("attach"))],
        [*MADE_ATTACHED, ("truth.begin", asked("attach", by="its successor"))],
    ),
    "S29": (
        [("told.swept", {"by": 1, "volume": "v", "node": "n1", "action": "Detach"})],
        [("told.swept", {"by": 1, "volume": "v", "node": "", "action": ""})],
    ),
    "S30": (
        [*([asks(), wait(0.1)] * 60)],
        [*([asks(), wait(0.2)] * 60)],
    ),
    "S35": (
        [SWEPT, wait(150), SWEPT],
        [SWEPT, wait(300), SWEPT, ("told.swept", {"by": 2, "volume": "v", "node": "", "action": ""})],
    ),
    "D1": ([("truth.recovered", {"had": 5, "has": 4})], [("truth.recovered", {"had": 5, "has": 6})]),
    "P1": ([("truth.died", {"error": "E"})], []),
    "P2": ([raised(KeyError("a"))], [raised(Conflict("late", status=409)), raised(OSError("no device"))]),
}


APART = ("L12", "S32", "S33", "S34", "S36", "S39")
"""Tried by traces of their own (`test_invariants_deadlines`, `test_invariants_requests`): those here leave
out what was written down, and waited for."""


def found(events: Events, settings: Settings | None = None, *, actor: str = "x") -> list[str]:
    """What is violated by what an actor does. An event "wait" lets so many seconds pass."""
    moment = [0.0]
    trace = Trace(lambda: moment[0])
    violations = check(trace, settings)
    for kind, fields in events:
        moment[0] += fields.get("seconds", 0.0)
        if kind != "wait":
            trace(actor, kind, **fields)
    return [each.invariant for each in violations if each.invariant not in APART]


def timed(events: list[tuple[float, tuple[str, dict[str, Any]]]]) -> list[str]:
    """What is violated by events at these moments."""
    story: Events = []
    now = 0.0
    for moment, event in events:
        story += [("wait", {"seconds": moment - now}), event]
        now = moment
    return found(story)


@pytest.mark.parametrize("invariant", CASES)
def test_a_violating_trace_is_found_and_a_near_miss_passes(invariant: str):
    violating, near_miss = CASES[invariant]
    assert found(violating) == [invariant]
    assert found(near_miss) == []


def test_a_disk_that_is_made_once_more_under_its_own_name_is_found_where_the_storage_has_no_other():
    made = ("truth.created", {"volume": "v"})
    assert found([made, ("truth.created", {"volume": "w"})]) == []
    assert found([made, ("truth.deleted", {"volume": "v"}), made]) == []


def test_a_disk_that_is_a_copy_begins_with_the_words_of_its_original():
    made = ("truth.created", {"volume": WRITTEN["volume"], "words": 2, "source": "kept-s"})
    assert "S16" not in found([made, ("truth.written", WRITTEN | {"found": 2})])
    assert "S16" in found([made, ("truth.written", WRITTEN)])


@pytest.mark.parametrize("state", ["attaching", "attached", "busy"])
def test_a_cloud_gives_a_device_name_to_one_volume_at_a_time_however_it_is_spelt(state: str):
    other = DEVICE | {"volume": "w", "device": "/dev/sdba", "state": state}
    assert found([("truth.device", DEVICE), ("truth.device", other)]) == ["S10"]
    assert found([("truth.device", DEVICE), ("truth.device", other | {"device": "/dev/sdbb"})]) == []
    assert found([("truth.device", DEVICE), ("truth.device", other | {"node": "n2"})]) == []
    gone: Events = [("truth.device", DEVICE), ("truth.device", DEVICE | {"state": ""})]
    assert found([*gone, ("truth.device", other)]) == []


def test_a_cloud_has_an_exclusive_volume_on_one_instance_at_a_time():
    other = DEVICE | {"node": "n2", "state": "attaching"}
    assert found([("truth.device", DEVICE), ("truth.device", other)]) == ["S4"]
    assert (
        found([("truth.device", DEVICE), ("truth.device", DEVICE | {"state": ""}), ("truth.device", other)])
        == []
    )


def test_a_record_speaks_of_the_disk_of_its_persistent_volume_whatever_the_storage_calls_it():
    def record_of(volume: str) -> tuple[str, dict[str, Any]]:
        annotations = {"mooring.dev/volume-name": "kubernetes.io/csi/d^vol-1"}
        spec = {"nodeName": "n1", "source": {"persistentVolumeName": volume}}
        return written(RECORDS, "va", {"metadata": {"annotations": annotations}, "spec": spec})

    attached = ("truth.attached", ATTACHED)
    assert found([record_of("v"), attached]) == []
    assert found([record_of("w"), attached]) == ["S13"]


@pytest.mark.parametrize("late", ["va", "another"])
def test_a_volume_that_a_late_attachment_has_taken_keeps_the_next_node_waiting_at_the_storage(late: str):
    """It was not known when the next node was granted the volume: the storage refuses, or the lock."""
    late_request = ("asked.late", {"name": late})
    taken = [late_request, record(), ("truth.attached", ATTACHED), ("truth.begin", asked("attach", "n2"))]
    assert found(taken) == ([] if late == "va" else ["S20'"])


def test_a_pod_that_a_user_removed_by_force_may_have_a_successor():
    assert found([exclusive_volume(), ("truth.started", POD), FORCED, ("truth.started", OTHER)]) == []


def test_a_pod_may_start_beside_a_removed_one_with_a_volume_that_nodes_share():
    shared = exclusive_volume("ReadWriteOnce", "ReadWriteMany")
    assert found([shared, ("truth.started", POD), FORCED, ("truth.started", ANOTHER)]) == []


STARTS_TWICE = [("truth.started", POD), pod_gone(), ("truth.started", OTHER)]


def test_a_pod_whose_machine_was_declared_dead_may_have_a_successor():
    assert found([("plan.declared", DECLARED), node(tainted=True), *STARTS_TWICE]) == []


@pytest.mark.parametrize("end", [("plan.declared", DECLARED | {"out": False}), node(tainted=True, seen="t")])
def test_but_not_when_that_was_taken_back_or_the_node_has_reported_since(end: tuple[str, dict[str, Any]]):
    assert found([("plan.declared", DECLARED), node(tainted=True), end, *STARTS_TWICE]) == ["S24", "S1"]


def test_a_report_under_an_earlier_taint_takes_nothing_back():
    earlier = node(tainted=True, seen="an earlier one")
    assert found([("plan.declared", DECLARED), earlier, *STARTS_TWICE]) == []


def lost_its_claim(phase: str = "Released") -> tuple[str, dict[str, Any]]:
    body = msgspec.json.encode({"metadata": {}, "status": {"phase": phase}})
    return "store.written", {"resource": "persistentvolumes", "name": "v", "_body": body}


def test_an_attachment_that_is_made_once_the_volume_has_lost_its_claim_counts_when_it_is_carried_out():
    deleting = ("truth.deleting", {"volume": "v"})
    assert found([lost_its_claim(), record(), deleting]) == []
    assert found([record(), lost_its_claim(), deleting]) == ["S20"]
    assert found([lost_its_claim(), lost_its_claim("Available"), record(), deleting]) == ["S20"]
    attach = ("truth.begin", asked("attach"))
    assert found([lost_its_claim(), record(), attach, deleting]) == ["S20"]


def test_a_disk_may_be_deleted_under_a_mount_that_the_storage_has_cut_off():
    mounted, deleting = ("truth.mounted", MOUNTED), ("truth.deleting", {"volume": "v"})
    assert found([mounted, deleting]) == ["S20"]
    assert found([mounted, ("truth.revoked", THERE), deleting]) == []


def test_a_detach_under_use_is_accepted_of_a_node_that_was_declared_dead_and_of_no_other():
    going = record(deletionTimestamp="now")
    mounted, detach = ("truth.mounted", MOUNTED), ("truth.begin", asked("detach"))
    declared: Events = [("plan.declared", DECLARED), node(tainted=True)]
    assert found([mounted, record(), *declared, going, detach]) == []
    assert found([mounted, record(), going, *declared, detach]) == ["S23", "S7"]
    taken_back = ("plan.declared", DECLARED | {"out": False})
    assert found([mounted, record(), *declared, taken_back, going, detach]) == [], "it was on its way"
    assert found([mounted, record(), *declared, taken_back, wait(2), going, detach]) == ["S23", "S7"]
    assert found([mounted, record(), USES, ("plan.declared", DECLARED), going, detach]) == ["S23", "S7"], (
        "it answers"
    )


def test_what_was_decided_before_the_controller_stood_still_arrives_when_it_goes_on():
    """85007 of the swarm: between its last look and its request nothing can be asked any more."""
    stood = ("plan.stalled", {"request": "PATCH"})
    over = ("plan.over", {"what": "stall", "on": "attaching"})
    taken_back = ("plan.declared", DECLARED | {"out": False})
    going = record(deletionTimestamp="now")
    before: Events = [record(), ("plan.declared", DECLARED), node(tainted=True)]

    def of(events: Events) -> list[str]:
        return found([*before, *events], actor="attaching")

    assert of([stood, wait(60), taken_back, wait(60), over, going]) == []
    assert of([stood, wait(60), taken_back, wait(60), over, wait(2), going]) == ["S23"]
    assert of([taken_back, wait(60), stood, wait(60), over, going]) == ["S23"], "it was taken back before"


def test_a_detach_under_use_is_accepted_after_a_timer_of_a_silent_node_or_of_one_that_is_gone():
    timer = {"mooring.dev/volume-name": "v", FORCE_DETACH_SINCE: "then"}
    mounted, detach = ("truth.mounted", MOUNTED), ("truth.begin", asked("detach"))
    began: Events = [record(annotations=timer)]
    ends: Events = [record(annotations=timer, deletionTimestamp="now"), detach]
    for silent in ([SILENT], [READY, USES, gone("nodes", "n1")]):
        assert found([mounted, *silent, *began, wait(359), *ends]) == []
        assert found([mounted, *silent, *began, wait(300), *ends]) == ["S23", "S7"], "before its time"
        assert found([mounted, *silent, wait(400), *began, *ends]) == ["S23", "S7"], "as soon as it begins"
        assert found([mounted, *silent, wait(400), *ends]) == ["S23", "S7"], "without a timer"
    answers: Events = [CUT, USES, wait(100), SILENT, wait(100)]
    assert found([mounted, SILENT, *began, wait(300), *answers, *ends]) == ["S23", "S7"]
    assert found([mounted, USES, *began, wait(400), *ends]) == ["S23", "S7"], "of a node that answers"
    assert found([mounted, SILENT, *began, wait(200), gone("nodes", "n1"), wait(200), *ends]) == [], (
        "silent first"
    )
    assert found([mounted, SILENT, *began, wait(400), USES, *ends]) == [], "it came back meanwhile"
    assert found([mounted, SILENT, *began, wait(400), USES, wait(2), *ends]) == ["S23", "S7"]


def test_a_volume_may_go_whose_node_went_while_that_was_on_its_way_and_no_later():
    let_go: Events = [USES, record(), node(tainted=False, ready="True", has=()), gone("nodes", "n1")]
    going = record(deletionTimestamp="now")
    assert found([*let_go, going]) == []
    assert found([*let_go, wait(2), going]) == ["S23"]
    assert found([READY, USES, record(), gone("nodes", "n1"), going]) == ["S23"], "it had not let it go"


def test_a_true_word_about_a_machine_without_a_node_frees_what_no_later_registration_has_had():
    """66335 of the swarm: the controller was away while there was a Node of that name again."""
    off, on = ("truth.power", {"on": False}), ("truth.power", {"on": True})
    before: Events = [READY, USES, record(), gone("nodes", "n1")]
    declared, going = ("plan.declared", DECLARED), record(deletionTimestamp="now")
    wanted = node(tainted=False, ready="True", has=(), wants=["disk/v"])
    ends: Events = [gone("nodes", "n1"), wait(2), going]
    said: Events = [*before, off, declared, on]

    def of(events: Events) -> list[str]:
        return found(events, actor="n1")

    assert of([*said, wanted, *ends]) == []
    assert of([*before, declared, wanted, *ends]) == ["S23"], "it ran when that was said"
    assert of([*before, off, on, wanted, *ends]) == ["S23"], "none was said"
    assert of([*before[:-1], off, declared, wanted, *ends]) == ["S23"], "that was of a Node"
    assert of([*before[:-2], before[-1], off, declared, record(), wanted, *ends]) == ["S23"], "it came later"
    assert of([*said, wanted, *ends[:-1], wanted, going]) == [], "a Node came while that was on its way"
    assert of([*said, wanted, wait(2), going]) == ["S23"], "there is a Node, which may use it"
    assert of([*said, wanted, USES, *ends]) == ["S23"], "it was told of the volume"
    assert of([*said, wanted, ("truth.mounted", MOUNTED), *ends]) == ["S23"]
    given = {"mooring.dev/volume-name": "v", "mooring.dev/node-uid": "b"}
    last = record(annotations=given, deletionTimestamp="now")
    assert of([*said, wanted, *ends[:-1], last]) == ["S23"], "it is of the next registration"
    another = record(uid="b", deletionTimestamp="now")
    assert of([*said, wanted, record_gone(), record(uid="b"), *ends[:-1], another]) == ["S23"]
    taken_back = ("plan.declared", DECLARED | {"out": False})
    assert of([*said, wanted, taken_back, *ends]) == ["S23"]


def test_a_timer_may_run_out_early_by_as_much_as_the_controllers_clock_is_wrong_and_no_more():
    began = record(annotations={"mooring.dev/volume-name": "v", FORCE_DETACH_SINCE: "then"})
    ends = record(
        annotations={"mooring.dev/volume-name": "v", FORCE_DETACH_SINCE: "then"}, deletionTimestamp="now"
    )
    skew = ("plan.step", {"what": "skew", "on": "attaching", "value": 60.0, "how": 0})
    before: Events = [SILENT, began, wait(100), skew]
    assert found([*before, wait(210), ends]) == []
    assert found([*before, wait(190), ends]) == ["S23"]


def test_a_policy_that_takes_the_deletion_of_a_node_for_a_statement_waits_until_it_has_lasted():
    policy = Settings(deletion_confirms=True)
    before: Events = [READY, USES, record(), gone("nodes", "n1")]
    going = record(deletionTimestamp="now")
    assert found([*before, wait(40), going], policy) == []
    assert found([*before, wait(20), going], policy) == ["S23"]
    assert found([*before, wait(40), going], Settings()) == ["S23"]


def test_a_timer_takes_no_volume_from_a_pod_that_had_it_before_and_still_has():
    began: dict[str, Any] = {"annotations": {"mooring.dev/volume-name": "v", FORCE_DETACH_SINCE: "then"}}
    uses = {"nodeName": "n1", "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}]}

    def user(**more: Any) -> tuple[str, dict[str, Any]]:
        return written("pods", "default/db-0", {"metadata": {"uid": "a"}, "spec": uses} | more)

    before: Events = [claim("a", "v"), user(), ("truth.mounted", MOUNTED), node(tainted=False), record()]
    after: Events = [record(**began, deletionTimestamp="now"), ("truth.begin", asked("detach"))]
    timer: Events = [record(**began), wait(361)]
    assert found([*before, *timer, *after]) == ["S23", "S7"]
    assert found([*before, *timer, pod_gone(), *after]) == []
    assert found([*before, *timer, user(status={"phase": "Failed"}), *after]) == []
    late: Events = [claim("a", "v"), ("truth.mounted", MOUNTED), SILENT, *timer, user()]
    assert found([*late, *after]) == []
    free, taken = (
        written("persistentvolumes", "v", {"spec": spec}) for spec in ({}, {"claimRef": {"uid": "a"}})
    )
    assert found([*before, *timer, free, *after]) == [], "it was made anew, and is no claim's"
    assert found([*before, *timer, free, taken, *after]) == ["S23", "S7"]


def test_a_pod_that_is_said_to_have_ended_must_not_run_unless_its_machine_was_declared_dead():
    events: Events = [pod("Running"), ("truth.started", POD), pod("Failed")]
    assert found(events) == ["S3"]
    assert found([("plan.declared", DECLARED), *events]) == ["S3"], "it is not known to be silent"
    assert found([("plan.declared", DECLARED), node(tainted=True), *events]) == []


def test_a_deletion_is_not_taken_back_and_a_grace_period_does_not_grow():
    ending = {"deletionTimestamp": "t", "deletionGracePeriodSeconds": 5}
    assert found([pod("Running", **ending), pod("Running")]) == ["S3"]
    assert found(
        [pod("Running", **ending), pod("Running", **(ending | {"deletionGracePeriodSeconds": 6}))]
    ) == ["S3"]
    assert (
        found([pod("Running", **ending), pod("Running", **(ending | {"deletionGracePeriodSeconds": 0}))])
        == []
    )


def test_a_write_through_something_that_is_not_mounted_is_found():
    assert found([("truth.written", WRITTEN | {"mounted": False, "committed": False})]) == ["S4'"]


def test_a_mount_that_the_storage_has_cut_off_does_not_count_as_a_second_one():
    second = ("truth.mounted", MOUNTED | {"node": "n2"})
    assert found([("truth.mounted", MOUNTED), ("truth.revoked", THERE), second]) == []


def test_a_record_takes_back_that_a_disk_is_attached_only_when_the_storage_has_said_so():
    attached: Events = [READY, record(), ("truth.attached", ATTACHED), says(True)]
    for more in (dict[str, Any](), {"deletionTimestamp": "now"}):
        assert found([*attached, says(False, **more)]) == ["S13"]
        assert found([*attached, ("truth.denied", THERE), says(False, **more)]) == []
        assert found([*attached, ("truth.detached", ATTACHED), says(False, **more)]) == []


def test_a_record_that_came_too_late_may_ask_for_a_volume_that_another_node_has():
    attached: Events = [record(), ("truth.attached", ATTACHED)]
    body = {"metadata": {"annotations": {"mooring.dev/volume-name": "v"}}, "spec": {"nodeName": "n2"}}
    second: Events = [written(RECORDS, "vb", body), ("truth.begin", asked("attach", "n2"))]
    assert found([*attached, *second]) == ["S20'"]
    assert found([*attached, ("asked.late", {"name": "vb"}), *second]) == []


def test_a_detach_that_has_nothing_to_do_may_begin_while_another_node_is_given_the_volume():
    """What came of a VolumeAttachment that was made too late is asked to be detached."""
    given: Events = [record(), ("truth.attached", ATTACHED), ("truth.begin", asked("attach"))]
    assert found([*given, ("truth.begin", asked("detach", "n2"))]) == []
    there = ("truth.attached", ATTACHED | {"node": "n2"})
    assert "S8" in found([*given, there, ("truth.begin", asked("detach", "n2"))])


def test_a_node_that_a_lock_is_closed_for_mounts_nothing():
    granted = record(annotations=GRANTED)
    assert found([granted, lock(2, n1={"epoch": 2}), ("truth.mounted", MOUNTED)]) == ["S11"]
    assert found([granted, lock(2, n2={"epoch": 2}), ("truth.mounted", MOUNTED)]) == []


def says_in_use(
    *volumes: str, ready: str = "True", boot: str = "b1", **annotations: str
) -> tuple[str, dict[str, Any]]:
    """Node n1 says what it uses."""
    conditions = [{"type": "Ready", "status": ready}]
    status = {"volumesInUse": volumes, "conditions": conditions, "nodeInfo": {"bootID": boot}}
    return written("nodes", "n1", {"metadata": {"annotations": annotations}, "status": status})


def test_a_lock_is_opened_only_for_a_node_that_has_shown_that_nothing_is_left_there():
    closed, opened = lock(2, n1={"epoch": 2, "bootID": "b1"}), lock(3)
    used = says_in_use("example.com/disk/v")
    assert found([used, closed, opened]) == ["S11"]
    assert found([closed, opened]) == ["S11"], "it has said nothing at all"
    assert found([says_in_use(), closed, opened]) == []
    assert found([says_in_use(ready="Unknown"), closed, opened]) == ["S11"]
    assert found([says_in_use("example.com/disk/v", boot="b2"), closed, opened]) == []
    awaits = {"mooring.dev/volumes-awaited": '{"example.com/disk/v":2}'}
    assert found([says_in_use("example.com/disk/v", **awaits), closed, opened]) == []


def test_a_budget_may_forget_that_a_pod_was_evicted_which_is_none_of_its_any_more():
    evicted = budget({"db-0": "2030-01-01T00:00:00Z"})
    assert found([pod("Running"), evicted, pod("Running", labels={"apart": "1"}), budget({})]) == []
    assert found([pod("Running"), evicted, pod("Running", labels={"app": "db"}), budget({})]) == ["S22"]


def test_a_node_that_is_cut_off_does_not_know_that_a_pod_was_removed_unless_it_sees_a_later_one():
    removed: Events = [wait(1), FORCED, gone("pods", "default/db-0", {"metadata": {"uid": "a"}})]
    other = written("pods", "default/web-0", {"metadata": {"uid": "c"}})
    both: Events = [("truth.started", POD), ("truth.started", ANOTHER)]
    before: Events = [exclusive_volume(), pod("Pending"), other, *removed]
    after: Events = [exclusive_volume(), pod("Pending"), *removed, other]
    assert "S1'" not in found([CUT, *before, *both])
    assert "S1'" in found([*before, *both]), "it is not cut off"
    assert "S1'" in found([CUT, *after, *both]), "it knows of the later pod"


def test_a_slow_mount_that_began_before_the_volume_was_taken_by_force_may_end_where_it_is_not_attached():
    declared: Events = [("plan.declared", DECLARED), node(tainted=True)]
    taken: Events = [record(), *declared, record(deletionTimestamp="now")]
    begins = ("truth.mounting", THERE | {"attached": True})
    late = ("truth.mounted", MOUNTED | {"attached": False})
    assert "S6" not in found([begins, *taken, late])
    assert "S6" in found([begins, late]), "it was not taken by force"
    assert "S6" in found([*taken, ("truth.mounting", THERE | {"attached": False}), late]), (
        "it began afterwards"
    )
    assert "S6" in found([begins, *taken, late, late]), "one mount may"


def test_a_mount_against_its_lock_is_accepted_where_the_volume_was_taken_by_force():
    declared: Events = [("plan.declared", DECLARED), node(tainted=True)]
    forced: Events = [record(), *declared, record(deletionTimestamp="now"), lock(3)]
    assert found([*forced, ("truth.mounted", MOUNTED)]) == []


def test_a_record_must_not_offer_a_disk_that_is_not_attached():
    assert found([READY, record(), says(True)]) == ["S13"]
    assert found([READY, record(), says(True, deletionTimestamp="now")]) == ["S13"]


def test_a_record_may_offer_a_disk_that_the_storage_took_away_before_it_answered():
    """Nothing tells of that: not of what it took later, nor of what was attached and detached since. Found by
    the simulation."""
    attached: Events = [READY, record(), ("truth.attached", ATTACHED)]
    taken: Events = [("truth.taken", THERE), ("truth.detached", ATTACHED)]
    assert found([*attached, *taken, says(True)]) == []
    assert found([*attached, *taken, says(True), says(False), says(True)]) == ["S13"]
    assert found([*attached, says(True), *taken, says(False), says(True)]) == ["S13"]
    again = [("truth.attached", ATTACHED), ("truth.detached", ATTACHED)]
    assert found([*attached, *taken, *again, says(True)]) == ["S13"]
    assert found([*attached, *taken, record_gone(), record(), says(True)]) == ["S13"]


def test_a_volume_stays_as_long_as_a_claim_is_bound_to_it():
    assert found([claim("a", "v"), gone("persistentvolumes", "v")]) == ["S15"]


def test_a_disk_that_was_made_for_a_claim_may_go_when_that_has_got_another_volume():
    """A user has given it one that was kept, while its own was being made. Found by the simulation."""
    made, other = ("truth.deleted", {"volume": "pvc-a"}), ("truth.deleted", {"volume": "v"})
    waiting = written("persistentvolumeclaims", "default/c", {"metadata": {"uid": "a"}})
    assert found([waiting, made]) == ["S14"]
    assert found([waiting, claim("a", "v"), made]) == []
    assert found([waiting, claim("a", "v"), other]) == ["S14"]


def test_a_claim_and_a_volume_that_a_user_has_stripped_may_go_and_no_others():
    claim_gone = gone("persistentvolumeclaims", "default/c", {"metadata": {"uid": "a"}})
    volume_gone = gone("persistentvolumes", "v", {"metadata": {"uid": "pv"}})
    used = [claim("a", "v"), ("truth.started", POD)]
    assert found([*used, ("plan.stripped", {"uid": "a"}), claim_gone]) == []
    assert found([*used, ("plan.stripped", {"uid": "b"}), claim_gone]) == ["S15"]
    assert found([claim("a", "v"), ("plan.stripped", {"uid": "pv"}), volume_gone]) == []
    assert found([claim("a", "v"), ("plan.stripped", {"uid": "a"}), volume_gone]) == ["S15"]


def test_a_volume_that_is_made_again_may_go_until_the_claim_that_has_lost_its_like_is_bound_to_it():
    def volume_gone(uid: str) -> tuple[str, dict[str, Any]]:
        return gone("persistentvolumes", "v", {"metadata": {"uid": uid}})

    body = {"metadata": {"uid": "a"}, "spec": {"volumeName": "v"}, "status": {"phase": "Lost"}}
    lost = written("persistentvolumeclaims", "default/c", body)
    before = [claim("a", "v"), ("plan.stripped", {"uid": "pv"}), volume_gone("pv"), lost]
    assert found([*before, volume_gone("again")]) == []
    assert found([*before, claim("a", "v"), volume_gone("again")]) == ["S15"]


def test_a_volume_that_was_emptied_may_have_another_claim_when_its_own_is_gone():
    emptied, another = ("truth.recycled", {"volume": "v"}), claim("b", "v", "default/d")
    ended = gone("persistentvolumeclaims", "default/c", {"metadata": {"uid": "a"}})
    assert found([claim("a", "v"), ended, emptied, another]) == []
    assert found([claim("a", "v"), ended, another]) == ["S12"]
    assert found([claim("a", "v"), emptied]) == ["S12"]


def test_a_volume_is_released_only_when_its_claim_is_gone_or_has_another():
    bound: Events = [claim("a", "v"), volume_of("a")]
    assert found([*bound, volume_of("a", "Released")]) == ["S45"]
    assert found([claim("a", ""), volume_of("a", "Released")]) == ["S45"]
    assert found([claim("a", "w"), volume_of("a", "Released")]) == []
    assert found([claim("a", "v"), volume_of("b", "Released")]) == []
    released: Events = [*bound, claim_gone("a"), volume_of("a", "Released")]
    assert found([*released, claim("b", ""), volume_of("a", "Released")]) == []


def test_a_claim_is_lost_only_when_its_volume_is_gone_or_anothers():
    bound: Events = [claim("a", "v"), volume_of("a")]
    volume_gone = gone("persistentvolumes", "v", {"metadata": {}})
    assert found([*bound, wait(2), is_lost("a")]) == ["S45"]
    assert found([volume_of(""), wait(2), is_lost("a")]) == ["S45"]
    assert "S45" not in found([*bound, wait(2), volume_gone, is_lost("a")])
    assert found([*bound, wait(2), volume_of("b"), wait(2), is_lost("a")]) == []
    just_after_the_look: Events = [volume_gone, wait(2), volume_of("a"), is_lost("a")]
    assert "S45" not in found([*bound, *just_after_the_look])
    assert found([*bound, wait(2), is_lost("a"), is_lost("a")]) == ["S45"]


def test_a_checker_counts_how_often_it_had_something_to_look_at():
    trace = Trace(lambda: 0.0)
    checks = Checks(trace)
    trace("x", "truth.mounted", **MOUNTED)
    assert checks.guarded()["S6"] == 1
    assert checks.guarded()["S1"] == 0


def test_a_detach_that_was_asked_for_before_the_mount_must_not_take_effect_after_it():
    trace = Trace(lambda: 0.0)
    violations = check(trace)
    for kind, fields in [
        ("truth.begin", asked("detach")),
        ("truth.attached", ATTACHED),
        ("truth.mounted", MOUNTED),
        ("truth.detached", ATTACHED),
    ]:
        trace("x", kind, **fields)
    assert "S7" in [each.invariant for each in violations]


@pytest.mark.parametrize(("absent_s", "violated"), [(10.0, ["S24", "S1"]), (41.0, [])])
def test_pods_of_a_node_count_as_ended_only_when_it_was_absent_for_long(absent_s: float, violated: list[str]):
    moment = [0.0]
    trace = Trace(lambda: moment[0])
    violations = check(trace)
    for kind, fields in [("truth.started", POD), gone("nodes", "n1")]:
        trace("x", kind, **fields)
    moment[0] = absent_s
    for kind, fields in [pod_gone(), ("truth.started", OTHER)]:
        trace("x", kind, **fields)
    assert [each.invariant for each in violations] == violated


def test_a_silent_node_that_a_fault_of_the_controller_hides_may_be_unknown_too_early():
    late: Events = [("plan.step", {"what": "cut", "on": "watching", "value": 60.0, "how": 0})]
    signs: Events = [READY, lease("1"), wait(30), lease("2"), wait(30), SILENT]
    assert found([*late, *signs]) == []
    elsewhere: Events = [("plan.step", {"what": "cut", "on": "placing", "value": 60.0, "how": 0})]
    assert found([*elsewhere, *signs]) == ["S25"]


def test_a_pod_without_a_toleration_goes_at_once_and_one_without_a_taint_never():
    assert found([unreachable(), tolerant(0, evicted=True)]) == []
    assert found([unreachable(), tolerant(0), READY, tolerant(0, evicted=True)]) == [], "a moment ago it was"
    assert found([unreachable(), tolerant(0), READY, wait(2), tolerant(0, evicted=True)]) == ["S26"]
    assert found([READY, tolerant(30), wait(60), tolerant(30, evicted=True)]) == ["S26"]
    without_its_node = [unreachable(), tolerant(0), gone("nodes", "n1")]
    assert found([*without_its_node, tolerant(0, evicted=True)]) == [], "its Node was there a moment ago"
    assert found([*without_its_node, wait(2), tolerant(0, evicted=True)]) == ["S26"]


def test_a_request_that_is_too_old_is_under_way_no_more():
    paused: Events = [("truth.begin", asked("attach"))]
    other: Events = [("truth.begin", asked("attach", "n2"))]
    assert found([*paused, wait(29), *other]) == ["S8"]
    assert found([*paused, wait(31), *other]) == []


def test_an_evicted_pod_may_go_early_by_as_much_as_the_controllers_clock_is_wrong():
    def skewed(value: float) -> Events:
        return [("plan.step", {"what": "skew", "on": "watching", "value": value, "how": 0})]

    for value, violated in ((60.0, []), (5.0, ["S26"])):
        events: Events = [
            unreachable(),
            tolerant(300),
            *skewed(value),
            wait(250),
            tolerant(300, evicted=True),
        ]
        assert found(events) == violated


def test_a_pod_is_killed_no_sooner_than_two_seconds_after_it_was_told_to_end_unless_it_has_lost_a_volume():
    told = ("truth.signalled", {"uid": "a"})
    assert found([ends(0), told, wait(1), KILLED]) == ["S27"]
    assert found([ends(0), told, wait(2), KILLED]) == []
    assert found([ends(10), KILLED]) == ["S27"]
    assert found([pod("Running"), KILLED]) == [], "it does not end: a volume was taken from its node"
    assert found([SILENT, USES, ends(10), told, KILLED]) == [], "the same, of a node that was silent"
    back = [USES, gone("nodes", "n1"), wait(40), USES]
    assert found([*back, ends(10), told, KILLED]) == [], "or that did not exist until just now"
    assert found([*back, wait(70), ends(10), told, KILLED]) == ["S27"]


def test_a_pod_is_killed_at_once_where_its_node_fences_itself_and_no_renewal_was_acknowledged_for_the_limit():
    told, fences = ("truth.signalled", {"uid": "a"}), Settings(fences_itself_s=48.0)
    sent, acknowledged = ("asked.renew", {"number": 1}), ("asked.renewed", {"number": 1})
    once = [sent, wait(3), acknowledged]
    assert found([*once, wait(40), ends(10), told, KILLED], fences, actor="n1") == ["S27"]
    assert found([*once, wait(46), ends(10), told, KILLED], fences, actor="n1") == []
    assert found([sent, wait(49), ends(10), told, KILLED], fences, actor="n1") == ["S27"], (
        "it never was armed"
    )
    assert found([*once, wait(46), ends(10), told, KILLED], actor="n1") == ["S27"]


def test_the_storage_may_be_asked_again_for_what_it_has_done_if_its_answer_may_have_been_lost():
    lost = ("plan.step", {"what": "array-unanswered", "on": "array", "value": 60.0, "how": 0})
    again = ("truth.begin", asked("attach"))
    assert found([lost, *MADE_ATTACHED, again]) == []
    detached: Events = [
        *(("truth.begin", asked("detach")), ("truth.detached", ATTACHED), ("truth.end", asked("detach"))),
    ]
    assert found([*MADE_ATTACHED, *detached, again]) == []
    assert found([*MADE_ATTACHED, *detached, ("truth.begin", asked("detach"))]) == ["S28"]


ATTACHED_AT_ONCE: Events = [*MADE_ATTACHED[1:]]
NOT_ANSWERED: Events = [("truth.begin", asked("attach")), ("truth.end", asked("attach")), wait(1)]
TAKEN_AWAY: Events = [*ATTACHED_AT_ONCE, ("truth.detached", ATTACHED), wait(1)]
DETACHED: Events = [
    *(("truth.begin", asked("detach")), ("truth.detached", ATTACHED), ("truth.end", asked("detach"))),
]
DETACHED_AGAIN: Events = [("truth.begin", asked("detach")), ("truth.end", asked("detach"))]


@pytest.mark.parametrize(
    ("before", "later", "violated"),
    [
        ([*NOT_ANSWERED, *ATTACHED_AT_ONCE], [wait(300), *DETACHED_AGAIN], []),
        ([*NOT_ANSWERED, *ATTACHED_AT_ONCE], [wait(300), *DETACHED_AGAIN, *DETACHED_AGAIN], ["S28"]),
        ([*NOT_ANSWERED, *ATTACHED_AT_ONCE], [*DETACHED_AGAIN, wait(300), *DETACHED_AGAIN], ["S28"]),
        ([*NOT_ANSWERED, *ATTACHED_AT_ONCE, wait(300)], [wait(300), *DETACHED_AGAIN], ["S28"]),
        ([exclusive_volume(), *NOT_ANSWERED, *ATTACHED_AT_ONCE], [wait(300), *DETACHED_AGAIN], ["S28"]),
        (ATTACHED_AT_ONCE, [wait(300), *DETACHED_AGAIN], ["S28"]),
        ([*TAKEN_AWAY, *ATTACHED_AT_ONCE], [wait(300), *DETACHED_AGAIN], ["S28"]),
    ],
    ids=[
        *("not-answered", "twice-more", "at-each-look", "too-old", "a-volume-that-is-defined"),
        *("answered", "answered-and-taken-away"),
    ],
)
def test_a_volume_is_detached_once_more_if_an_attach_could_take_effect_when_it_was_detached(
    before: Events, later: Events, violated: list[str]
):
    """Where nothing defines the volume, an attach that was not answered may do so for ten minutes: long after
    all faults are over (seed 20533 of the swarm)."""
    fault = {"what": "array-unanswered", "on": "array", "value": 3.0, "how": 0}
    attached = [record(), ("plan.step", fault), *before, wait(3), ("plan.over", fault)]
    assert found([*attached, wait(300), *DETACHED, *later]) == violated


def test_a_disk_is_deleted_once_and_a_volume_mounted_once():
    deleting, deleted = ("truth.deleting", {"volume": "v"}), ("truth.deleted", {"volume": "v"})
    assert found([deleting, deleting, deleted]) == []
    assert found([deleting, deleted, deleting]) == ["S28"]
    assert found([deleting, deleted, ("truth.created", {"volume": "v"}), deleting]) == []
    mounted = ("truth.mounted", MOUNTED)
    assert found([mounted, mounted]) == ["S28"]
    assert found([mounted, ("truth.unmounted", THERE), mounted]) == []


def test_the_storage_gets_the_same_request_no_faster_than_its_backoff():
    refused: Events = [record(), ("truth.attached", ATTACHED)]
    for seconds, violated in ((4.0, ["S30"]), (6.0, [])):
        tries = [("truth.begin", asked("detach")), ("truth.end", asked("detach")), wait(seconds)] * 12
        assert found([*refused, *tries]) == violated


def test_a_nodes_status_is_written_no_faster_than_its_pods_come_and_go():
    of_pod = asks()
    of_node = of_pod[0], of_pod[1] | {"resource": "nodes", "name": "n1", "sub": "status"}
    assert found([*([of_node, wait(0.1)] * 80)]) == ["S30"]
    assert found([*([of_node, of_node, of_pod, wait(0.25)] * 40)]) == []
    assert found([*([of_node] * 8), of_pod, wait(0.5)] * 10) == ["S30"]
    assert found([*([of_pod, wait(0.1)] * 20), wait(10), *([of_node, wait(0.1)] * 80)]) == ["S30"]


def test_a_workloads_status_is_written_no_faster_than_its_pods_change():
    """Users changed a StatefulSet five times in a second (82770 of the swarm)."""
    of_pod, of_map = written("pods", "default/db-0", {}), written("configmaps", "default/c", {})
    of_set = asks()[0], asks()[1] | {"resource": "statefulsets", "name": "default/db", "sub": "status"}
    assert found([*([of_set, of_pod, wait(0.1)] * 80)]) == []
    assert found([*([of_set, of_map, wait(0.1)] * 80)]) == ["S30"]
    assert found([*([of_set, of_set, of_pod, wait(0.1)] * 80)]) == ["S30"]
    assert found([*([of_pod, wait(0.1)] * 80), wait(10), *([of_set, wait(0.1)] * 80)]) == ["S30"]


def test_the_sweep_may_find_a_timer_of_a_clock_that_has_jumped():
    skew = ("plan.step", {"what": "skew", "on": "attaching", "value": -3600.0, "how": 0})
    assert found([skew, ("told.swept", {"by": 1, "volume": "v", "node": "n1", "action": "Detach"})]) == []


def test_a_disk_is_that_of_one_claim_also_when_its_volume_is_deleted_and_made_anew():
    def volume(name: str) -> tuple[str, dict[str, Any]]:
        return written("persistentvolumes", name, {"spec": {"flexVolume": {"options": {"disk": "d"}}}})

    first: Events = [volume("v"), claim("a", "v")]
    lost = gone("persistentvolumes", "v", {"metadata": {}})
    body = {"metadata": {"uid": "a"}}
    for anew in ("v", "w"):
        second: Events = [lost, volume(anew), claim("b", anew, "default/d")]
        assert "S12" in found([*first, *second])
        assert "S12" not in found([*first, gone("persistentvolumeclaims", "default/c", body), *second])


def test_a_node_that_no_fault_strikes_is_never_unknown():
    signs: Events = [READY, lease("1"), wait(60)]
    assert found([*signs, SILENT]) == ["S25"]
    assert found([CUT, *signs, SILENT]) == []


def test_a_sign_of_life_that_comes_while_a_node_is_set_unknown_is_too_late():
    asks: dict[str, Any] = {"resource": "nodes", "name": "n1", "version": 1, "method": "PATCH", "life": "1"}
    asks |= {"uid": True, "sub": "", "erases": False}
    silent: Events = [READY, lease("1"), CUT, wait(40), ("asked.write", asks)]
    assert found([*silent, lease("2"), SILENT], actor="watching") == []
    assert found([*silent, lease("2"), SILENT], actor="n1") == ["S25"]


def test_an_error_of_the_code_is_found_within_a_group_and_told_once_for_each_place():
    group = ExceptionGroup("several", [OSError("no device"), IndexError("7")])
    assert found([raised(group), raised(group)]) == ["P2"]


THREE = [ordered(), member(0), member(1), member(2)]


@pytest.mark.parametrize(
    ("events", "violated"),
    [
        (at(20, ordered(1)) + at(30, takes(2)), []),
        (at(20, ordered(1)) + at(30, takes(1)), ["S31"]),  # not the highest
        (at(20, ordered(1)) + at(30, takes(2), takes(1)), ["S31"]),  # two at a time
        (at(20, ordered(2), member(0, ready=False)) + at(30, takes(2)), ["S31"]),
        (at(20, ordered(2)) + at(30, member(0, ready=False), takes(2)), []),  # a cache may not know it yet
        (at(20, ordered(2, podManagementPolicy="Parallel")) + at(30, takes(2)), []),
        (at(30, takes(1, "user 1 ")), []),
    ],
)
def test_a_set_is_scaled_down_from_the_top_while_those_that_stay_are_available(
    events: list[tuple[float, tuple[str, dict[str, Any]]]], violated: list[str]
):
    assert timed(at(0, *THREE) + events) == violated


@pytest.mark.parametrize(
    ("events", "violated"),
    [
        (at(30, takes(2)), []),
        (at(30, takes(2), takes(1)), ["S31"]),  # it knows that the first one goes
        (at(20, member(0, ready=False)) + at(30, takes(2)), ["S31"]),
        (
            at(0, ordered(podManagementPolicy="Parallel"))
            + at(20, member(0, ready=False))
            + at(30, takes(2)),
            ["S31"],
        ),
        (at(20, member(0, ready=False)) + at(30, takes(0)), []),  # that makes nothing worse
        (
            at(10, member(0, ready=False), member(1, ready=False)) + at(30, member(0)) + at(31, takes(0)),
            [],  # a cache may not know that it is ready
        ),
        (at(10, member(0, ready=False), member(1, ready=False), member(0)) + at(31, takes(0)), ["S31"]),
        (at(20, member(0, ready=False)) + at(30, takes(2, "watching 1 podgc-controller")), []),
        (at(20, member(2, ready=False, deletionTimestamp="now")) + at(30, takes(1)), ["S31"]),
    ],
)
def test_an_update_takes_no_available_pod_while_others_are_not(
    events: list[tuple[float, tuple[str, dict[str, Any]]]], violated: list[str]
):
    assert timed(at(0, *THREE) + events) == violated


def test_an_update_may_take_as_many_pods_at_once_as_the_set_says():
    two = ordered(updateStrategy={"rollingUpdate": {"maxUnavailable": 2}})
    members = [member(0), member(1), member(2)]
    assert timed(at(0, two, *members) + at(30, takes(2), takes(1))) == []
    assert timed(at(0, two, *members) + at(30, takes(2), takes(1), takes(0))) == ["S31"]
    ill = at(0, two, *members) + at(20, member(0, ready=False))
    assert timed([*ill, *at(22, takes(2))]) == []  # a cache may not know it yet
    assert timed([*ill, *at(30, takes(2))]) == ["S31"]


DIVIDED = ordered(updateStrategy={"rollingUpdate": {"partition": 1}}, status={"currentRevision": "one"})


@pytest.mark.parametrize(
    ("events", "violated"),
    [
        (at(0, DIVIDED) + at(30, member(0, labels=ONE)), []),
        (at(0, DIVIDED) + at(30, member(0, labels=TWO)), ["S31"]),
        (at(0, DIVIDED) + at(3, member(0, labels=TWO)), []),  # the controller may not know of it yet
        (at(0, DIVIDED) + at(30, member(0, labels=ONE), member(1, labels=TWO)), []),
        (at(0, DIVIDED, member(0, labels=ONE)) + at(30, takes(0)), ["S31"]),
        (at(0, DIVIDED, member(0, labels=TWO), member(1), member(2)) + at(30, takes(0)), []),
    ],
)
def test_a_pod_below_the_partition_is_of_the_current_revision_and_is_not_updated(
    events: list[tuple[float, tuple[str, dict[str, Any]]]], violated: list[str]
):
    assert timed(events) == violated


def test_a_pod_that_is_adopted_is_not_made():
    orphan = member(1, ownerReferences=[])
    ill = member(0, ready=False)
    assert timed(at(0, ordered(), member(0), orphan) + at(20, ill) + at(30, member(1))) == []
    assert timed(at(0, ordered(), member(0)) + at(20, ill) + at(30, member(1))) == ["S31"]


@pytest.mark.parametrize(
    ("mark", "stored", "violated"),
    [
        ("annotation", {"metadata": {"uid": "c", "annotations": {MARK: "no matter what"}}}, []),
        ("annotation", {"metadata": {"uid": "c"}}, ["S43"]),
        ("taint", {"metadata": {"uid": "c"}, "spec": {"taints": [{"key": MARK}]}}, []),
        ("taint", {"metadata": {"uid": "c"}, "spec": {"taints": [{"key": "x"}]}}, ["S43"]),
        ("condition", {"metadata": {"uid": "c"}, "status": {"conditions": [{"type": MARK}]}}, []),
        ("condition", {"metadata": {"uid": "c"}, "status": {"conditions": []}}, ["S43"]),
        ("owner b", {"metadata": {"uid": "c", "ownerReferences": [{"name": "b"}]}}, []),
        ("owner b", {"metadata": {"uid": "c", "ownerReferences": [{"name": "x"}]}}, ["S43"]),
        ("finalizer", {"metadata": {"uid": "c", "finalizers": ["x", GUARD]}}, []),
        ("finalizer", {"metadata": {"uid": "c", "finalizers": ["x"]}}, ["S43"]),
        ("label", {"metadata": {"uid": "another"}}, []),
    ],
)
def test_each_mark_of_another_party_stays(mark: str, stored: dict[str, Any], violated: list[str]):
    assert found([marked(mark), written("persistentvolumeclaims", "default/c", stored)]) == violated


def test_an_owner_of_another_party_goes_with_that_and_one_loss_is_told_once():
    mine = gone("configmaps", "default/b", {"metadata": {}})
    assert found([marked("owner b"), mine, held()]) == []
    assert found([marked("label"), held(), held()]) == ["S43"]


def test_a_finalizer_that_the_other_party_takes_away_need_not_stay():
    unmarked = "plan.unmarked", marked("finalizer")[1]
    assert found([marked("finalizer"), unmarked, held()]) == []


def test_what_the_other_party_has_a_finalizer_on_is_not_deleted():
    """A write that takes the last finalizer from an object that is being deleted shows as its end alone."""
    taken, unmarked = gone("persistentvolumeclaims", "default/c"), ("plan.unmarked", marked("finalizer")[1])
    going = held(deletionTimestamp="now", finalizers=[GUARD])
    assert found([marked("finalizer"), going, taken]) == ["S43"]
    assert found([marked("finalizer"), going, unmarked, taken]) == []
    assert found([marked("label"), held(labels={MARK: "yes"}), taken]) == []


def ends_namespace(going: bool) -> tuple[str, dict[str, Any]]:
    metadata = {"name": "default", "uid": "n"} | ({"deletionTimestamp": "now"} if going else {})
    return written("namespaces", "default", {"metadata": metadata})


def test_what_an_owner_or_a_living_namespace_keeps_is_not_collected():
    foreground = {"deletionTimestamp": "now", "finalizers": ["foregroundDeletion"]}
    assert found([owner(**foreground), owned(), collects()]) == []
    assert found([owner(deletionTimestamp="now", finalizers=["x"]), owned(), collects()]) == ["S42"]
    assert found([owner("another"), owned(), collects()]) == [], "another one of its name"
    assert found([owner("second"), owned("first", "second"), collects()]) == ["S42"]
    assert found([owner(), owned(), collects(6)]) == [], "it has changed since, so the request is refused"
    unowned = written(
        "replicasets.apps", "default/web-1", {"metadata": {"name": "web-1", "namespace": "default"}}
    )
    unowned = unowned[0], unowned[1] | {"version": 7}
    assert found([ends_namespace(going=True), unowned, collects()]) == []
    assert found([ends_namespace(going=False), unowned, collects()]) == ["S42"]


def test_what_a_status_names_or_a_daemon_is_of_is_kept_unless_its_controller_cannot_know_of_it_yet():
    two = [revision(1), revision(2)]
    assert timed([*at(0, updated(0, current=1), *two), *at(6, deletes_revision(1))]) == ["S44"]
    assert timed([*at(0, updated(0), *two), *at(3, member(0, labels=ONE)), *at(6, deletes_revision(1))]) == []
    other = deletes_revision(1, who="garbage-collector")
    assert timed([*at(0, updated(0, current=1), *two), *at(6, other)]) == []
    gone = "store.deleted", updated(0, current=1)[1]
    assert timed([*at(0, updated(0, current=1), *two, gone), *at(6, deletes_revision(1))]) == []
    daemons = [updated(0, kind="daemonsets.apps"), revision(1, "db-"), revision(2, "db-")]
    asked = deletes_revision(1, "db-", "daemonset-controller")
    assert timed([*at(0, *daemons, member(0, labels=ONE)), *at(6, asked)]) == ["S44"]
    assert timed([*at(0, *daemons, member(0, labels=TWO)), *at(6, asked)]) == []


def test_of_what_is_of_no_use_the_newest_are_kept():
    three = [revision(1), revision(2), revision(3)]
    assert timed([*at(0, updated(1), *three), *at(6, deletes_revision(1))]) == []
    assert timed([*at(0, updated(1), *three), *at(6, deletes_revision(3))]) == ["S44"]
    assert timed([*at(0, updated(2), *three), *at(6, deletes_revision(1))]) == ["S44"]
    assert timed([*at(0, updated(-1), *three), *at(6, deletes_revision(1))]) == ["S44"]


def test_a_pod_that_has_not_been_ready_for_long_enough_is_not_available():
    slow = ordered(minReadySeconds=60)
    assert timed(at(0, slow, member(0)) + at(61, member(1))) == []
    assert timed(at(0, slow, member(0)) + at(40, member(1))) == ["S31"]


def test_a_late_cache_explains_that_a_pod_is_made_too_early():
    cut = ("plan.step", {"what": "watch-lag", "on": "placing", "value": 30.0, "how": 0})
    assert timed(at(0, ordered(), cut, member(0, ready=False)) + at(20, member(1))) == []


def says_fenced() -> tuple[str, dict[str, Any]]:
    evidence = '{"nodeUID": "u1", "bootID": "boot-0", "by": "NodeFence f"}'
    annotations = {"mooring.dev/volume-name": "v", FENCE_EVIDENCE: evidence}
    body = {"metadata": {"annotations": annotations}, "spec": {"nodeName": "n1"}}
    return written(RECORDS, "va", body)


SHUT_BOOT = {"target": target_of("v"), "node": "n1"}
LET_IN = ("truth.let-in", {**SHUT_BOOT, "boot": "boot-0"})


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ([], [LET_IN], []),
        ([("truth.mounted", MOUNTED)], [LET_IN], ["S18'"]),
        ([("truth.mounted", MOUNTED), ("truth.unmounted", THERE)], [LET_IN], []),
        ([("truth.mounted", MOUNTED)], [("truth.power", {"on": False}), LET_IN], []),
        ([("truth.mounted", MOUNTED)], [("truth.let-in", SHUT_BOOT)], []),
        ([], [says_fenced(), LET_IN], ["S18'"]),
        ([], [says_fenced(), record_gone(), LET_IN], []),
        ([], [says_fenced(), record(), LET_IN], []),
    ],
    ids=[
        "nothing is left",
        "mounted as before",
        "unmounted",
        "its boot is over",
        "by hand, for no fence",
        "evidence stands that it is shut out",
        "and its record is gone",
        "and was taken back",
    ],
)
def test_a_node_is_let_in_in_its_boot_only_when_nothing_of_what_it_was_shut_out_of_is_left(
    before: Events, after: Events, expected: list[str]
):
    target = {"nodeName": "n1", "bootID": "boot-0"}
    attempts = [{"token": "f-0-0-1", "mechanism": "m", "outcome": "Fenced"}]
    held = {"spec": {"nodeName": "n1"}, "status": {"target": target, "attempts": attempts}}
    shut = [("truth.shut-out", SHUT_BOOT), written("nodefences.fencing.mooring.dev", "f", held)]
    events: Events = [*before, *shut, *after]
    assert [each for each in found(events, actor="n1") if each == "S18'"] == expected


def test_a_container_does_not_start_before_its_volumes_are_set_up():
    assert found([("truth.started", POD | {"absent": "data"})]) == ["S37"]


@pytest.mark.parametrize(
    ("events", "so"),
    [
        ([node(tainted=False), tells("node n1 does not answer")], True),
        ([node(tainted=False, ready="True"), tells("node n1 does not answer")], False),
        ([node(tainted=True), tells("node n1 was declared out of service")], True),
        ([node(tainted=False), tells("node n1 was declared out of service")], False),
        ([tells("Successfully provisioned volume v")], False),
        ([tells("could not attach: is this really EC2's endpoint?")], False),
        ([says(True), tells('AttachVolume.Attach succeeded for volume "v" ')], True),
        ([says(False), tells('AttachVolume.Attach succeeded for volume "v" ')], False),
        ([record(), record_gone(), wait(70), tells("volume v is still attached to node n1")], False),
        (
            [record("vb"), record(), record_gone(), wait(70), tells("volume v is still attached to node n2")],
            True,
        ),
        ([tells("anything else")], True),
    ],
)
def test_what_an_event_says_is_so(events: Events, so: bool):
    assert ("S38" in found(events)) is not so


def test_why_an_attach_failed_is_said_where_it_is_tried_again_and_nowhere_else():
    assert found([record(), *ASKED_IN_VAIN, says_why(""), ASKS]) == ["S41"]
    assert found([record(uid="a"), *ASKED_IN_VAIN, record(uid="b"), ASKS]) == [], "another one was made since"
    assert found([record(), *ASKED_IN_VAIN, ("truth.begin", asked("attach", by="attaching 2"))]) == []
    done: Events = [ASKS, ("truth.attached", ATTACHED), *ASKED_IN_VAIN[1:]]
    assert "S41" not in found([record(), *done, ASKS])
