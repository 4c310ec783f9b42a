"""The kinds of snapshot.storage.k8s.io, which no API server has by itself. Names and types are the CSI
community's."""

from __future__ import annotations

from typing import Any

from mooring.kube.objects.snapshots import GROUP

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_FLAG: Schema = {"type": "boolean"}
_NUMBER: Schema = {"type": "integer", "format": "int64", "minimum": 0}
_QUANTITY: Schema = {"x-kubernetes-int-or-string": True}
_POLICY: Schema = {"type": "string", "enum": ["Delete", "Retain"]}


def _fields(*required: str, **fields: Schema) -> Schema:
    return {"type": "object", "properties": fields, **({"required": list(required)} if required else {})}


_ERROR = _fields(message=_TEXT, time={"type": "string", "format": "date-time"})
_REFERENCE = _fields(
    apiVersion=_TEXT,
    kind=_TEXT,
    namespace=_TEXT,
    name=_TEXT,
    uid=_TEXT,
    resourceVersion=_TEXT,
    fieldPath=_TEXT,
)

_SNAPSHOT = {
    "spec": _fields(
        "source",
        source=_fields(persistentVolumeClaimName=_TEXT, volumeSnapshotContentName=_TEXT),
        volumeSnapshotClassName=_TEXT,
    ),
    "status": _fields(
        boundVolumeSnapshotContentName=_TEXT,
        creationTime={"type": "string", "format": "date-time"},
        readyToUse=_FLAG,
        restoreSize=_QUANTITY,
        error=_ERROR,
    ),
}
_CONTENT = {
    "spec": _fields(
        "deletionPolicy",
        "driver",
        "source",
        "volumeSnapshotRef",
        deletionPolicy=_POLICY,
        driver=_TEXT,
        source=_fields(volumeHandle=_TEXT, snapshotHandle=_TEXT),
        sourceVolumeMode=_TEXT,
        volumeSnapshotClassName=_TEXT,
        volumeSnapshotRef=_REFERENCE,
    ),
    "status": _fields(
        snapshotHandle=_TEXT, creationTime=_NUMBER, readyToUse=_FLAG, restoreSize=_NUMBER, error=_ERROR
    ),
}
_CLASS = {
    "driver": _TEXT,
    "deletionPolicy": _POLICY,
    "parameters": {"type": "object", "additionalProperties": _TEXT},
}


def _definition(
    kind: str,
    plural: str,
    short: str,
    scope: str,
    fields: dict[str, Schema],
    columns: dict[str, tuple[str, str]],
) -> dict[str, Any]:
    version: dict[str, Any] = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": fields}},
        "additionalPrinterColumns": [
            {"name": name, "type": type_, "jsonPath": path} for name, (type_, path) in columns.items()
        ],
    }
    if "status" in fields:
        version["subresources"] = {"status": {}}
    return {
        "metadata": {
            "name": f"{plural}.{GROUP}",
            "annotations": {
                "api-approved.kubernetes.io": "unapproved, names and types alone of the approved kinds"
            },
        },
        "spec": {
            "group": GROUP,
            "scope": scope,
            "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "shortNames": [short]},
            "versions": [version],
        },
    }


_AGE = ("date", ".metadata.creationTimestamp")
DEFINITIONS: tuple[dict[str, Any], ...] = (
    _definition(
        "VolumeSnapshot",
        "volumesnapshots",
        "vs",
        "Namespaced",
        _SNAPSHOT,
        {
            "ReadyToUse": ("boolean", ".status.readyToUse"),
            "SourcePVC": ("string", ".spec.source.persistentVolumeClaimName"),
            "SourceSnapshotContent": ("string", ".spec.source.volumeSnapshotContentName"),
            "RestoreSize": ("string", ".status.restoreSize"),
            "SnapshotClass": ("string", ".spec.volumeSnapshotClassName"),
            "SnapshotContent": ("string", ".status.boundVolumeSnapshotContentName"),
            "CreationTime": ("date", ".status.creationTime"),
            "Age": _AGE,
        },
    ),
    _definition(
        "VolumeSnapshotContent",
        "volumesnapshotcontents",
        "vsc",
        "Cluster",
        _CONTENT,
        {
            "ReadyToUse": ("boolean", ".status.readyToUse"),
            "RestoreSize": ("integer", ".status.restoreSize"),
            "DeletionPolicy": ("string", ".spec.deletionPolicy"),
            "Driver": ("string", ".spec.driver"),
            "VolumeSnapshotClass": ("string", ".spec.volumeSnapshotClassName"),
            "VolumeSnapshot": ("string", ".spec.volumeSnapshotRef.name"),
            "VolumeSnapshotNamespace": ("string", ".spec.volumeSnapshotRef.namespace"),
            "Age": _AGE,
        },
    ),
    _definition(
        "VolumeSnapshotClass",
        "volumesnapshotclasses",
        "vsclass",
        "Cluster",
        _CLASS,
        {"Driver": ("string", ".driver"), "DeletionPolicy": ("string", ".deletionPolicy"), "Age": _AGE},
    ),
)
