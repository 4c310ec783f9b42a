"""What users of a simulated cluster run: one body for each kind of workload, and what it needs beside it.

Each has its claims named so that `<claim>-<pod>` finds them, as a StatefulSet does.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any

from mooring.kube.objects import (
    ConfigMap,
    DaemonSet,
    Deployment,
    Job,
    Namespace,
    Object,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    ResourceQuota,
    Secret,
    ServiceAccount,
    StatefulSet,
)
from mooring.simulation.parts.array_plugin import DISK
from mooring.simulation.parts.content_plugins import TOKEN
from mooring.simulation.parts.machine import ENDS, RUNS
from mooring.volumes.exclusivity import ONE_POD_MODE

Body = dict[str, Any]
NAMESPACE = "default"
CLASS = "disk"
STATIC_CLASS = "made-by-hand"
RETAINING_CLASS = "kept"
"""Its volumes stay when their claims are gone (reclaim policy Retain)."""
ONE_NODE_MODE = "ReadWriteOnce"
MISTAKEN = "mistaken-"
"""Classes whose names begin so have a mistake: no volume is made by them."""
NAMED_CLASS = "by-name"
"""Of claims and volumes that are made by hand for each other."""
BY_HAND = frozenset({STATIC_CLASS, NAMED_CLASS})
"""The classes of volumes that are made by hand."""
NAMED = frozenset({"named", "reserved"})
"""The kinds of workloads whose claim names its volume, or whose volume names its claim; it may come later."""
DEPLOYMENTS = frozenset({"shared", "rivals", "raw-shared", *NAMED})
"""The kinds of workloads that are Deployments."""
STATIC = frozenset({"static", "scarce", "recycled", *NAMED})
"""The kinds of workloads whose volumes are made by hand."""
RECYCLED = frozenset({"recycled"})
"""Those of them that are emptied and used again when their claim is gone."""
RETAINED = frozenset({"retained"})
"""The kinds of workloads whose volumes are kept when their claims are gone."""
DAEMONS, JOBS, GUARDED = frozenset({"daemons"}), frozenset({"job"}), frozenset({"guarded"})
"""The kinds of workloads that are DaemonSets, Jobs, and StatefulSets with a PodDisruptionBudget."""
MANIFESTS = frozenset({"manifests"})
"""The kinds of workloads that are static pods: a manifest on each node."""
GROWING = frozenset({"growing"})
"""The kinds of workloads whose claims ask for more, now and then."""
KEPT = frozenset({"kept"})
"""The kinds of workloads of whose claims users take snapshots, and make copies."""
TUNED = frozenset({"tuned", "tuned-first"})
"""The kinds of workloads whose claims name a VolumeAttributesClass, and another one now and then."""
FIRST_ATTRIBUTES = "bronze"
"""The VolumeAttributesClass that claims name from the beginning, where they do."""
OF_PLUGIN = STATIC
"""The kinds of workloads whose storage is reached by a plugin, and not by a driver."""
OF_DRIVER = TUNED
"""Those whose storage is reached by a CSI driver: no other PersistentVolume may name such a class."""
TENANTS = frozenset({"tenant"})
"""The kinds of workloads that have a namespace of their own, of their name."""
CONFIGURED = frozenset({"configured"})
"""The kinds of workloads whose pods show a ConfigMap and a Secret, of their name."""
EDITION = "example.com/edition"
"""Which edition of its manifest a static pod is of."""
TIER, MADE_FOR = "example.com/tier", "example.com/made-for"
"""A label and an annotation of templates, which pods and claims have from them."""
BROKEN = "example.com/broken"
"""Says of a template that its containers cannot run: a user has made a mistake."""
EPHEMERAL, QUOTAS = frozenset({"ephemeral"}), frozenset({"quota"})
"""The kinds of workloads with generic ephemeral volumes, and with a ResourceQuota."""
PROGRESS_S = 60
"""After so long a Deployment says that it makes no progress: some of its pods wait for good."""
TOKEN_S, LONGER_TOKEN_S = 600, 900
"""For so long the tokens of a service account are valid: the first is the shortest time that there is."""
VAULT = "vault"
"""For whom the second of them is, and not for the API server."""
RETRIES = 1_000
"""More failures than a run has: its Jobs complete."""
MIN_READY_S = 3
"""A pod of an ordered workload is available when it has been ready for so long."""
MOST = 3
"""No workload is scaled to more than this."""
EVICT_AFTER_S = 30


def bodies(
    kind: str, name: str, replicas: int, evict_after_s: int = EVICT_AFTER_S, history: int | None = None
) -> list[tuple[type[Object], Body, str]]:
    """What is created for a workload: kind, body and namespace of each, in order. Its pods are evicted from a
    node that has not answered for so long. `history`: how many of its former templates are kept."""
    made = KINDS[kind](name, replicas)
    for owner, body, _ in made:
        spec = body.get("spec", {})
        if history is not None and owner in (StatefulSet, DaemonSet):
            spec["revisionHistoryLimit"] = history
        for toleration in spec.get("template", {}).get("spec", spec).get("tolerations", ()):
            toleration["tolerationSeconds"] = evict_after_s
    return made


def volume_body(
    name: str, claim: str | None = None, policy: str = "Retain", storage_class: str = STATIC_CLASS
) -> Body:
    """A PersistentVolume that a user made by hand, for any claim or for that one. `policy`: what becomes of
    it when its claim is gone."""
    spec: Body = {
        "capacity": {"storage": "1Gi"},
        "accessModes": [ONE_NODE_MODE],
        "storageClassName": storage_class,
        "persistentVolumeReclaimPolicy": policy,
        "flexVolume": {"driver": DISK, "options": {"disk": name}},
    }
    if claim is not None:
        spec["claimRef"] = {"namespace": NAMESPACE, "name": claim}
    return {"metadata": {"name": name}, "spec": spec}


def volume_again(kind: str, disk: str) -> Body:
    """The PersistentVolume of a disk that was made by hand for a workload of this kind, as it was."""
    if kind in RECYCLED:
        return volume_body(disk, policy="Recycle")
    if kind not in NAMED:
        return volume_body(disk)
    claim = f"data-{maker_of(disk)}" if kind == "reserved" else None
    return volume_body(disk, claim, storage_class=NAMED_CLASS)


def scarce(kind: str) -> bool:
    """Whether a workload has no more volumes than it should have pods: scaled up, it has too few."""
    return kind in ("scarce", "recycled")


def named_disk(name: str) -> str:
    """The disk of a workload that has one, which is made for its claim."""
    return f"{name}-disk-0"


def static_disks(name: str, replicas: int, *, few: bool = False) -> list[str]:
    """The disks of a workload whose volumes are made by hand: as many as it is ever scaled to, or (`few`) as
    it should have."""
    return [f"{name}-disk-{number}" for number in range(replicas if few else max(replicas, MOST))]


def maker_of(disk: str) -> str:
    """The workload for which a disk was made by hand."""
    return disk.partition("-disk-")[0]


def _disk(name: str, replicas: int) -> list[tuple[type[Object], Body, str]]:
    return [(StatefulSet, _set(name, replicas, {"data": CLASS}), NAMESPACE)]


def _tuned_first(name: str, replicas: int) -> list[tuple[type[Object], Body, str]]:
    """Its volumes are made as a VolumeAttributesClass says."""
    body = _set(name, replicas, {"data": CLASS})
    body["spec"]["volumeClaimTemplates"][0]["spec"]["volumeAttributesClassName"] = FIRST_ATTRIBUTES
    return [(StatefulSet, body, NAMESPACE)]


def _ordered(name: str, replicas: int) -> list[tuple[type[Object], Body, str]]:
    """A StatefulSet whose pods come and go one after the other, and are updated two of three at a time."""
    body = _set(name, replicas, {"data": CLASS})
    update = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "67%"}}
    body["spec"] |= {
        "podManagementPolicy": "OrderedReady",
        "minReadySeconds": MIN_READY_S,
        "updateStrategy": update,
    }
    return [(StatefulSet, body, NAMESPACE)]


def _one_pod(name: str, replicas: int) -> list[tuple[type[Object], Body, str]]:
    return [(StatefulSet, _set(name, replicas, {"data": CLASS}, ONE_POD_MODE), NAMESPACE)]


def _plain(name: str, replicas: int) -> list[tuple[type[Object], Body, str]]:
    return [(StatefulSet, _set(name, replicas, {}), NAMESPACE)]


def _retained(name: str, replicas: int) -> list[tuple[type[Object], Body, str]]:
    """Its volumes are left to users when their claims are gone."""
    return [(StatefulSet, _set(name, replicas, {"data": RETAINING_CLASS}), NAMESPACE)]


def _passing(name: str, replicas: int) -> list[tuple[type[Object], Body, str]]:
    """A StatefulSet whose claims go with it, and with the pods that are scaled away."""
    ((_, body, _),) = made = _disk(name, replicas)
    body["spec"]["persistentVolumeClaimRetentionPolicy"] = {"whenDeleted": "Delete", "whenScaled": "Delete"}
    return made


def _two_disks(name: str, replicas: int) -> list[tuple[type[Object], Body, str]]:
    return [(StatefulSet, _set(name, replicas, {"data": CLASS, "log": CLASS}), NAMESPACE)]


def _scratch(name: str, replicas: int) -> list[tuple[type[Object], Body, str]]:
    body = _set(name, replicas, {})
    body["spec"]["template"]["spec"] |= {"volumes": [{"name": "scratch", "emptyDir": {}}]}
    return [(StatefulSet, body, NAMESPACE)]


def _filling(name: str, replicas: int) -> list[tuple[type[Object], Body, str]]:
    """A StatefulSet whose pods may put too much into their emptyDirs."""
    ((_, body, _),) = made = _scratch(name, replicas)
    body["spec"]["template"]["spec"]["volumes"][0]["emptyDir"] = {"sizeLimit": "1Mi"}
    return made


def _sharing(name: str, replicas: int) -> list[tuple[type[Object], Body, str]]:
    """A StatefulSet whose pods have one share: those of a node have one mount of it."""
    body = _set(name, replicas, {})
    share = {"name": f"share-{name}", "nfs": {"server": "files", "path": f"/share-{name}"}}
    body["spec"]["template"]["spec"] |= {"volumes": [share]}
    return [(StatefulSet, body, NAMESPACE)]


def settings(name: str, edition: int) -> Body:
    """A ConfigMap in this edition. Each has a key that the one before has not."""
    keys = ("edition", "copy", f"only-in-{edition % 3}")
    return {"metadata": {"name": name}, "data": dict.fromkeys(keys, f"edition {edition}")}


def credentials(name: str, edition: int) -> Body:
    """A Secret, the same way."""
    body = settings(name, edition)
    data = {key: base64.b64encode(text.encode()).decode() for key, text in body["data"].items()}
    return body | {"data": data}


def _configured(name: str, replicas: int) -> list[tuple[type[Object], Body, str]]:
    """A StatefulSet whose pods show a ConfigMap, a Secret, and both of them beside the pod's labels and
    two tokens of its service account."""
    items = [{"key": "edition", "path": "{}/edition"}, {"key": "copy", "path": "{}/copy"}]
    shown = {
        kind: {
            "name": name,
            "items": [each | {"path": each["path"].format(kind)} for each in items],
        }
        for kind in ("configMap", "secret")
    }
    fields = [
        {"path": path, "fieldRef": {"fieldPath": f"metadata.{path}"}} for path in ("labels", "annotations")
    ]
    tokens = [
        {"path": TOKEN, "expirationSeconds": TOKEN_S},
        {"path": f"{VAULT}/{TOKEN}", "audience": VAULT, "expirationSeconds": LONGER_TOKEN_S},
    ]
    sources = [*({kind: source} for kind, source in shown.items()), {"downwardAPI": {"items": fields}}]
    sources += [{"serviceAccountToken": token} for token in tokens]
    volumes = [
        {"name": "settings", "configMap": {"name": name}},
        {"name": "credentials", "secret": {"secretName": name}},
        {"name": "identity", "projected": {"sources": sources}},
    ]
    body = _set(name, replicas, {})
    body["spec"]["template"]["spec"] |= {"volumes": volumes, "serviceAccountName": name}
    return [
        (ServiceAccount, {"metadata": {"name": name}}, NAMESPACE),
        (ConfigMap, settings(name, 0), NAMESPACE),
        (Secret, credentials(name, 0), NAMESPACE),
        (StatefulSet, body, NAMESPACE),
    ]


def _ephemeral(name: str, replicas: int) -> list[tuple[type[Object], Body, str]]:
    """A StatefulSet whose pods have claims that come and go with them."""
    body = _set(name, replicas, {})
    claim = _claim("", CLASS)["spec"]
    volume = {"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": claim}}}
    pod = body["spec"]["template"]["spec"]
    pod["volumes"] = [volume]
    pod["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    return [(StatefulSet, body, NAMESPACE)]


def _quota(name: str, replicas: int) -> list[tuple[type[Object], Body, str]]:
    """A StatefulSet, and a ResourceQuota that counts the claims of its namespace."""
    spec = {"hard": {"persistentvolumeclaims": "100", "requests.storage": "1Ti"}}
    return [(ResourceQuota, {"metadata": {"name": name}, "spec": spec}, NAMESPACE), *_disk(name, replicas)]


def _static(name: str, replicas: int, *, few: bool = False) -> list[tuple[type[Object], Body, str]]:
    volumes = [(PersistentVolume, volume_body(disk), "") for disk in static_disks(name, replicas, few=few)]
    return [*volumes, (StatefulSet, _set(name, replicas, {"data": STATIC_CLASS}), NAMESPACE)]


def _recycled(name: str, replicas: int) -> list[tuple[type[Object], Body, str]]:
    """As many volumes as it should have pods; each is emptied for the next claim."""
    disks = static_disks(name, replicas, few=True)
    volumes = [(PersistentVolume, volume_body(disk, policy="Recycle"), "") for disk in disks]
    return [*volumes, (StatefulSet, _set(name, replicas, {"data": STATIC_CLASS}), NAMESPACE)]


def _scarce(name: str, replicas: int) -> list[tuple[type[Object], Body, str]]:
    return _static(name, replicas, few=True)


def _shared(name: str, replicas: int, mode: str = ONE_NODE_MODE) -> list[tuple[type[Object], Body, str]]:
    """Pods of a Deployment that all use one exclusive volume: only those of one node can run."""
    template = {"metadata": {"labels": {"app": name}}, "spec": _pod({"data": f"data-{name}"})}
    spec = {
        "replicas": replicas,
        "progressDeadlineSeconds": PROGRESS_S,
        "selector": {"matchLabels": {"app": name}},
        "template": template,
    }
    return [
        (PersistentVolumeClaim, _claim(f"data-{name}", CLASS, mode), NAMESPACE),
        (Deployment, {"metadata": {"name": name}, "spec": spec}, NAMESPACE),
    ]


def _reserved(name: str, replicas: int) -> list[tuple[type[Object], Body, str]]:
    """The same; the volume is made by hand, and names the claim."""
    claim, deployment = _shared(name, replicas)
    claim[1]["spec"]["storageClassName"] = NAMED_CLASS
    return [claim, deployment]


def _named(name: str, replicas: int) -> list[tuple[type[Object], Body, str]]:
    """The same; the claim names the volume."""
    claim, deployment = _reserved(name, replicas)
    claim[1]["spec"]["volumeName"] = named_disk(name)
    return [claim, deployment]


def _rivals(name: str, replicas: int) -> list[tuple[type[Object], Body, str]]:
    """Pods of a Deployment that all use one ReadWriteOncePod volume: only one of them can run."""
    return _shared(name, replicas, ONE_POD_MODE)


def _as_devices(made: list[tuple[type[Object], Body, str]]) -> list[tuple[type[Object], Body, str]]:
    """The same, but containers get their volumes as raw devices."""
    for kind, body, _ in made:
        spec = body["spec"]
        for container in spec.get("template", {}).get("spec", {}).get("containers", ()):
            mounts = container.pop("volumeMounts")
            container["volumeDevices"] = [
                {"name": each["name"], "devicePath": f"/dev/{each['name']}"} for each in mounts
            ]
        claims = [spec] if kind is PersistentVolumeClaim else []
        claims += [template["spec"] for template in spec.get("volumeClaimTemplates", ())]
        for claim in claims:
            claim["volumeMode"] = "Block"
    return made


def _raw(name: str, replicas: int) -> list[tuple[type[Object], Body, str]]:
    return _as_devices(_disk(name, replicas))


def _raw_shared(name: str, replicas: int) -> list[tuple[type[Object], Body, str]]:
    return _as_devices(_shared(name, replicas))


def _once(name: str, replicas: int) -> list[tuple[type[Object], Body, str]]:
    """Pods without an owner, which end by themselves and stay as they ended."""
    found: list[tuple[type[Object], Body, str]] = []
    for number in range(replicas):
        pod, claim = f"{name}-{number}", f"data-{name}-{number}"
        spec = _pod({"data": claim}, command=ENDS) | {"restartPolicy": "OnFailure"}
        body: Body = {"metadata": {"name": pod, "labels": {"app": name}}, "spec": spec}
        found += [(PersistentVolumeClaim, _claim(claim, CLASS), NAMESPACE), (Pod, body, NAMESPACE)]
    return found


def _tenant(name: str, replicas: int) -> list[tuple[type[Object], Body, str]]:
    """A StatefulSet in a namespace of its own."""
    namespace = (Namespace, {"metadata": {"name": name}}, "")
    return [namespace, *((kind, body, name) for kind, body, _ in _disk(name, replicas))]


def _daemons(name: str, replicas: int) -> list[tuple[type[Object], Body, str]]:
    """A DaemonSet: a pod without a claim on each node, whatever happens to the node."""
    pod = _pod({})
    del pod["tolerations"]
    template = {"metadata": {"labels": {"app": name}}, "spec": pod}
    spec = {"selector": {"matchLabels": {"app": name}}, "template": template}
    return [(DaemonSet, {"metadata": {"name": name}, "spec": spec}, NAMESPACE)]


def _manifests(name: str, replicas: int) -> list[tuple[type[Object], Body, str]]:
    """Nothing in the API: users write manifests on the machines."""
    return []


def manifest(name: str, edition: int) -> Body:
    """A static pod; of another edition it is another pod."""
    pod = _pod({})
    del pod["tolerations"]
    metadata = {"name": name, "labels": {"app": name}, "annotations": {EDITION: str(edition)}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod}


def _job(name: str, replicas: int) -> list[tuple[type[Object], Body, str]]:
    """A Job that runs so many pods to their end, one after the other: they share one exclusive volume."""
    pod = _pod({"data": f"data-{name}"}, command=ENDS) | {"restartPolicy": "Never"}
    spec = {
        "completions": replicas,
        "backoffLimit": RETRIES,
        "podReplacementPolicy": "Failed",
        "template": {"metadata": {"labels": {"app": name}}, "spec": pod},
    }
    return [
        (PersistentVolumeClaim, _claim(f"data-{name}", CLASS), NAMESPACE),
        (Job, {"metadata": {"name": name}, "spec": spec}, NAMESPACE),
    ]


def _guarded(name: str, replicas: int) -> list[tuple[type[Object], Body, str]]:
    """A StatefulSet of which a drain takes one pod at a time."""
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": name}}}
    budget = (PodDisruptionBudget, {"metadata": {"name": name}, "spec": spec}, NAMESPACE)
    return [budget, *_disk(name, replicas)]


KINDS: Mapping[str, Callable[[str, int], list[tuple[type[Object], Body, str]]]] = {
    "disk": _disk,
    "ordered": _ordered,
    "growing": _disk,
    "kept": _disk,
    "tuned": _disk,
    "tuned-first": _tuned_first,
    "one-pod": _one_pod,
    "plain": _plain,
    "retained": _retained,
    "two-disks": _two_disks,
    "scratch": _scratch,
    "ephemeral": _ephemeral,
    "quota": _quota,
    "static": _static,
    "scarce": _scarce,
    "recycled": _recycled,
    "shared": _shared,
    "rivals": _rivals,
    "once": _once,
    "daemons": _daemons,
    "job": _job,
    "guarded": _guarded,
    "tenant": _tenant,
    "manifests": _manifests,
    "raw": _raw,
    "raw-shared": _raw_shared,
    "passing": _passing,
    "filling": _filling,
    "sharing": _sharing,
    "configured": _configured,
    "named": _named,
    "reserved": _reserved,
}


def copy_of(name: str, source: Mapping[str, str]) -> list[tuple[type[Object], Body]]:
    """A claim that is a copy of its source (a snapshot, or another claim), and a pod that writes a word to it
    and ends."""
    claim = _claim(name, CLASS)
    claim["spec"]["dataSource"] = dict(source)
    pod: Body = {
        "metadata": {"name": name},
        "spec": _pod({"data": name}, command=ENDS) | {"restartPolicy": "OnFailure"},
    }
    return [(PersistentVolumeClaim, claim), (Pod, pod)]


def _claim(name: str, storage_class: str, mode: str = ONE_NODE_MODE) -> Body:
    spec = {
        "accessModes": [mode],
        "storageClassName": storage_class,
        "resources": {"requests": {"storage": "1Gi"}},
    }
    return {"metadata": {"name": name}, "spec": spec}


def _pod(claims: Mapping[str, str], command: str = RUNS) -> Body:
    """A pod that is evicted soon from a node that does not answer. `claims`: volume -> claim."""
    tolerations = [
        {
            "key": f"node.kubernetes.io/{key}",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": EVICT_AFTER_S,
        }
        for key in ("unreachable", "not-ready")
    ]
    mounts = [{"name": volume, "mountPath": f"/{volume}"} for volume in claims]
    container = {"name": "main", "image": "app", "command": [command], "volumeMounts": mounts}
    volumes = [
        {"name": name, "persistentVolumeClaim": {"claimName": claim}} for name, claim in claims.items()
    ]
    body: Body = {"containers": [container], "terminationGracePeriodSeconds": 10, "tolerations": tolerations}
    return body | ({"volumes": volumes} if volumes else {})


def _set(name: str, replicas: int, templates: Mapping[str, str], mode: str = ONE_NODE_MODE) -> Body:
    """A StatefulSet; `templates`: volume -> its claims' class; `mode`: their access mode."""
    labels = {"app": name}
    marked = {"labels": labels | {TIER: "back"}, "annotations": {MADE_FOR: name}}
    pod = _pod({})
    pod["containers"][0]["volumeMounts"] = [
        {"name": volume, "mountPath": f"/{volume}"} for volume in templates
    ]
    spec: Body = {
        "replicas": replicas,
        "serviceName": name,
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": labels},
        "template": {"metadata": marked, "spec": pod},
        "volumeClaimTemplates": [
            {"metadata": {"name": volume, **marked}, "spec": _claim(volume, storage_class, mode)["spec"]}
            for volume, storage_class in templates.items()
        ],
    }
    return {"metadata": {"name": name}, "spec": spec}
