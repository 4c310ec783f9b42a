"""Volumes, claims, classes, attachments, nodes, drivers: defaulting, validation, immutable fields, status."""

from __future__ import annotations

from typing import Any

from tests.differential.steps import Step, delete, get, named, patch, post, put

STORAGE = "/apis/storage.k8s.io/v1"
PVS = "/api/v1/persistentvolumes"
CLAIMS = "/api/v1/namespaces/volumes/persistentvolumeclaims"
ATTACHMENTS = f"{STORAGE}/volumeattachments"
CLASSES = f"{STORAGE}/storageclasses"
NODES = "/api/v1/nodes"
DEFAULT = {"storageclass.kubernetes.io/is-default-class": "true"}


def volume(name: str, **spec: Any) -> dict[str, Any]:
    given = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]} | spec
    return named(
        "PersistentVolume", name, spec={key: value for key, value in given.items() if value is not None}
    )


def csi(name: str, **spec: Any) -> dict[str, Any]:
    return volume(name, csi={"driver": "disk.example.com", "volumeHandle": name}, **spec)


def claim(name: str, storage: Any = "1Gi", **spec: Any) -> dict[str, Any]:
    given = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": storage}}} | spec
    return named(
        "PersistentVolumeClaim", name, spec={key: value for key, value in given.items() if value is not None}
    )


def storage_class(name: str, **fields: Any) -> dict[str, Any]:
    return named("StorageClass", name, "storage.k8s.io/v1", **{"provisioner": "disk.example.com"} | fields)


def attachment(name: str, **spec: Any) -> dict[str, Any]:
    given = {
        "attacher": "disk.example.com",
        "nodeName": "n1",
        "source": {"persistentVolumeName": "pv"},
    } | spec
    return named("VolumeAttachment", name, "storage.k8s.io/v1", spec=given)


STEPS: list[Step] = [
    post("/api/v1/namespaces", named("Namespace", "volumes")),
    # classes
    post(CLASSES, storage_class("slow")),
    post(CLASSES, storage_class("bad", provisioner="")),
    post(CLASSES, storage_class("bad", reclaimPolicy="Burn")),
    post(CLASSES, storage_class("bad", volumeBindingMode="Later")),
    patch("merge", f"{CLASSES}/slow", {"provisioner": "other"}),
    patch("merge", f"{CLASSES}/slow", {"parameters": {"a": "1"}}),
    patch("merge", f"{CLASSES}/slow", {"reclaimPolicy": "Retain"}),
    patch("merge", f"{CLASSES}/slow", {"volumeBindingMode": "WaitForFirstConsumer"}),
    patch("merge", f"{CLASSES}/slow", {"allowVolumeExpansion": True}),
    # claims
    post(CLAIMS, claim("unclassed")),
    post(CLASSES, storage_class("fast", metadata={"annotations": DEFAULT}, allowVolumeExpansion=True)),
    # volumes (so that the default class is known to admission before it is needed)
    post(PVS, csi("pv")),
    post(PVS, volume("bad")),
    post(PVS, volume("bad", hostPath={"path": "/x"}, nfs={"server": "s", "path": "/"})),
    post(PVS, csi("bad", capacity=None)),
    post(PVS, csi("bad", capacity={"storage": "0"})),
    post(PVS, csi("bad", accessModes=None)),
    post(PVS, csi("bad", accessModes=["Never"])),
    post(PVS, csi("bad", persistentVolumeReclaimPolicy="Burn")),
    post(PVS, csi("bad", volumeMode="Tape")),
    post(PVS, volume("bad", csi={"driver": "disk.example.com"})),
    post(PVS, volume("bad", csi={"volumeHandle": "h"})),
    post(PVS, volume("bad", local={"path": "/x"})),
    post(PVS, volume("host", hostPath={"path": "/x"}, claimRef={"name": "c", "namespace": "volumes"})),
    patch("merge", f"{PVS}/pv", {"spec": {"csi": {"volumeHandle": "other"}}}),
    patch("merge", f"{PVS}/pv", {"spec": {"volumeMode": "Block"}}),
    patch("merge", f"{PVS}/pv", {"spec": {"capacity": {"storage": "2Gi"}}}),
    patch("merge", f"{PVS}/pv", {"spec": {"persistentVolumeReclaimPolicy": "Delete"}}),
    patch("merge", f"{PVS}/pv", {"spec": {"storageClassName": "fast"}}),
    patch("merge", f"{PVS}/pv", {"spec": {"claimRef": {"name": "c", "namespace": "volumes"}}}),
    patch("merge", f"{PVS}/pv/status", {"status": {"phase": "Available"}}),
    patch("merge", f"{PVS}/pv/status", {"status": {"phase": "Available", "message": "m"}}),
    delete(f"{PVS}/pv"),
    delete(f"{PVS}/pv", {"gracePeriodSeconds": 0}),
    patch("merge", f"{PVS}/pv", {"metadata": {"finalizers": ["example.com/x", "kubernetes.io/pv-protection"]}}),
    patch("merge", f"{PVS}/pv", {"metadata": {"finalizers": None}}),
    # nodes
    post(NODES, named("Node", "n1", status={"volumesInUse": ["kubernetes.io/csi/x^y"], "conditions": [
        {"type": "Ready", "status": "True"}]})),
    patch("strategic", f"{NODES}/n1/status", {"status": {"volumesAttached": [{"name": "a", "devicePath": "/d"}]}}),
    patch("strategic", f"{NODES}/n1/status", {"status": {"volumesAttached": [{"name": "b", "devicePath": ""}]}}),
    patch("strategic", f"{NODES}/n1/status", {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}),
    patch("merge", f"{NODES}/n1/status", {"metadata": {"annotations": {"a": "1"}}, "status": {"volumesInUse": None}}),
    patch("strategic", f"{NODES}/n1", {"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}}),
    patch("strategic", f"{NODES}/n1", {"spec": {"taints": [{"key": "b", "effect": "NoSchedule", "value": "v"}]}}),
    patch("strategic", f"{NODES}/n1", {"spec": {"taints": [{"key": "b", "effect": "Never"}]}}),
    patch("strategic", f"{NODES}/n1", {"spec": {"unschedulable": True}}),
    patch("strategic", f"{NODES}/n1", {"spec": {"unschedulable": None}}),
    patch("merge", f"{NODES}/n1", {"spec": {"providerID": "a://1"}}),
    patch("merge", f"{NODES}/n1", {"spec": {"providerID": "a://2"}}),
    patch("merge", f"{NODES}/n1", {"spec": {"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24"]}}),
    patch("merge", f"{NODES}/n1/status", {"status": {"capacity": {"cpu": 4, "memory": "8Gi", "pods": "110"}}}),
    get(NODES, fieldSelector="spec.unschedulable=false", labelSelector="none!=1"),
    # claims of the default class
    post(CLAIMS, claim("data")),
    post(CLAIMS, claim("none", storageClassName="")),
    post(CLAIMS, claim("numbers", 1073741824)),
    post(CLAIMS, claim("exact", "1.5Gi")),
    post(CLAIMS, claim("bad", "0")),
    post(CLAIMS, claim("bad", "-1Gi")),
    post(CLAIMS, claim("bad", "big")),
    post(CLAIMS, claim("bad", accessModes=[])),
    post(CLAIMS, claim("bad", accessModes=["ReadSometimes"])),
    post(CLAIMS, claim("bad", accessModes=["ReadWriteOnce", "ReadWriteOncePod"])),
    post(CLAIMS, claim("bad", resources={})),
    post(CLAIMS, claim("bad", volumeMode="Tape")),
    post(CLAIMS, claim("bad", storageClassName="Bad Name")),
    patch("merge", f"{CLAIMS}/data", {"spec": {"accessModes": ["ReadOnlyMany"]}}),
    patch("merge", f"{CLAIMS}/data", {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}),
    patch("merge", f"{CLAIMS}/data", {"spec": {"volumeName": "pv"}}),
    patch("merge", f"{CLAIMS}/data", {"spec": {"volumeName": "pv2"}}),
    patch("merge", f"{CLAIMS}/data", {"spec": {"storageClassName": "slow"}}),
    patch("merge", f"{CLAIMS}/data/status", {"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}}),
    patch("merge", f"{CLAIMS}/data", {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}),
    patch("merge", f"{CLAIMS}/data", {"spec": {"resources": {"requests": {"storage": "512Mi"}}}}),
    patch("merge", f"{CLAIMS}/data", {"spec": {"resources": {"requests": {"storage": "1.5Gi"}}}}),
    patch("merge", f"{CLAIMS}/data", {"status": {"phase": "Lost"}}),
    patch("merge", f"{CLAIMS}/data/status", {"spec": {"volumeName": "x"}}),
    delete(f"{CLAIMS}/data"),
    get(f"{CLAIMS}/data"),
    patch("merge", f"{CLAIMS}/data", {"metadata": {"finalizers": None}}),
    get(CLAIMS, fieldSelector="metadata.name=none"),
    # attachments
    post(ATTACHMENTS, attachment("va"), keep="va"),
    post(ATTACHMENTS, attachment("bad", attacher="")),
    post(ATTACHMENTS, attachment("bad", nodeName="")),
    post(ATTACHMENTS, attachment("bad", source={})),
    put(f"{ATTACHMENTS}/va", attachment("va")),
    patch("merge", f"{ATTACHMENTS}/va", {"spec": {"nodeName": "n2"}}),
    patch("merge", f"{ATTACHMENTS}/va", {"status": {"attached": True}}),
    patch("merge", f"{ATTACHMENTS}/va/status", {"status": {"attached": True, "attachmentMetadata": {"d": "1"}}}),
    patch("merge", f"{ATTACHMENTS}/va/status", {"metadata": {"annotations": {"a": "1"}}}),
    patch("merge", f"{ATTACHMENTS}/va", {"metadata": {"finalizers": ["example.com/x"], "annotations": {"a": "1"}}}),
    delete(f"{ATTACHMENTS}/va", {"preconditions": {"resourceVersion": "<<va.metadata.resourceVersion>>"}}),
    delete(f"{ATTACHMENTS}/va", {"preconditions": {"uid": "<<va.metadata.uid>>"}}),
    patch("merge", f"{ATTACHMENTS}/va/status", {"status": {"detachError": {"message": "m"}}}),
    patch("merge", f"{ATTACHMENTS}/va", {"metadata": {"finalizers": None}}),
    get(f"{ATTACHMENTS}/va"),
    # drivers and what nodes say of them
    post(f"{STORAGE}/csidrivers", named("CSIDriver", "disk.example.com", "storage.k8s.io/v1", spec={})),
    patch("merge", f"{STORAGE}/csidrivers/disk.example.com", {"spec": {"attachRequired": False}}),
    patch("merge", f"{STORAGE}/csidrivers/disk.example.com", {"spec": {"storageCapacity": True}}),
    post(f"{STORAGE}/csinodes", named("CSINode", "n1", "storage.k8s.io/v1", spec={
        "drivers": [{"name": "disk.example.com", "nodeID": "i-1", "allocatable": {"count": 3}}]})),
    patch("merge", f"{STORAGE}/csinodes/n1", {"spec": {"drivers": [{"name": "disk.example.com", "nodeID": "i-2"}]}}),
    post(f"{STORAGE}/csinodes", named("CSINode", "n2", "storage.k8s.io/v1", spec={"drivers": [{"name": "a"}]})),
    post(f"{STORAGE}/csinodes", named("CSINode", "n3", "storage.k8s.io/v1", spec={})),
]  # fmt: skip
