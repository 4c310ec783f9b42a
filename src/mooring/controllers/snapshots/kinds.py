"""The kinds of snapshot.storage.k8s.io, which no API server has by itself. Names and types are the CSI
community's."""

from __future__ import annotations

from typing import Any

from mooring.kube.custom_kinds import (
    AGE,
    DATE_TIME,
    FLAG,
    QUANTITY,
    TEXT,
    Schema,
    choice,
    definition,
    fields,
    mapped,
    whole,
)
from mooring.kube.objects.snapshots import GROUP

_DELETION = choice("Delete", "Retain")
_APPROVED = {"api-approved.kubernetes.io": "unapproved, names and types alone of the approved kinds"}


def _definition(
    kind: str,
    plural: str,
    short: str,
    scope: str,
    properties: dict[str, Schema],
    columns: dict[str, tuple[str, str]],
) -> dict[str, Any]:
    return definition(
        GROUP, "v1", kind, plural, scope, properties, columns, short=[short], annotations=_APPROVED
    )


_ERROR = fields(message=TEXT, time=DATE_TIME)
_REFERENCE = fields(
    apiVersion=TEXT,
    kind=TEXT,
    namespace=TEXT,
    name=TEXT,
    uid=TEXT,
    resourceVersion=TEXT,
    fieldPath=TEXT,
)

_SNAPSHOT = {
    "spec": fields(
        "source",
        source=fields(persistentVolumeClaimName=TEXT, volumeSnapshotContentName=TEXT),
        volumeSnapshotClassName=TEXT,
    ),
    "status": fields(
        boundVolumeSnapshotContentName=TEXT,
        creationTime=DATE_TIME,
        readyToUse=FLAG,
        restoreSize=QUANTITY,
        error=_ERROR,
    ),
}
_CONTENT = {
    "spec": fields(
        "deletionPolicy",
        "driver",
        "source",
        "volumeSnapshotRef",
        deletionPolicy=_DELETION,
        driver=TEXT,
        source=fields(volumeHandle=TEXT, snapshotHandle=TEXT),
        sourceVolumeMode=TEXT,
        volumeSnapshotClassName=TEXT,
        volumeSnapshotRef=_REFERENCE,
    ),
    "status": fields(
        snapshotHandle=TEXT, creationTime=whole(), readyToUse=FLAG, restoreSize=whole(), error=_ERROR
    ),
}
_CLASS = {
    "driver": TEXT,
    "deletionPolicy": _DELETION,
    "parameters": mapped(TEXT),
}


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
            "Age": AGE,
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
            "Age": AGE,
        },
    ),
    _definition(
        "VolumeSnapshotClass",
        "volumesnapshotclasses",
        "vsclass",
        "Cluster",
        _CLASS,
        {"Driver": ("string", ".driver"), "DeletionPolicy": ("string", ".deletionPolicy"), "Age": AGE},
    ),
)
