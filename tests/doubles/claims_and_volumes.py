"""Claims and volumes with what a test says of them, and else what fits together."""

from __future__ import annotations

from typing import Any

from mooring.kube.objects import (
    ObjectMeta,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    VolumeResourceRequirements,
)


def claim(
    *, annotations: dict[str, str] | None = None, size: str = "1Gi", uid: str = "u", **spec: Any
) -> PersistentVolumeClaim:
    given_spec: dict[str, Any] = {"access_modes": ("ReadWriteOnce",), "storage_class_name": "disk", **spec}
    return PersistentVolumeClaim(
        metadata=ObjectMeta(name="c", namespace="ns", uid=uid, annotations=annotations or {}),
        spec=PersistentVolumeClaimSpec(
            resources=VolumeResourceRequirements(requests={"storage": size}), **given_spec
        ),
    )


def volume(
    name: str = "pv", *, size: str = "1Gi", to: str | None = None, phase: str = "Available", deleting: bool = False,
    labels: dict[str, str] | None = None, **spec: Any,
) -> PersistentVolume:  # fmt: skip
    """`to`: the uid in a claimRef that names ns/c; "" for a reservation."""
    reference = ObjectReference(namespace="ns", name="c", uid=to) if to is not None else None
    given_spec: dict[str, Any] = {"access_modes": ("ReadWriteOnce",), "storage_class_name": "disk", **spec}
    return PersistentVolume(
        metadata=ObjectMeta(name=name, labels=labels or {}, deletion_timestamp="t" if deleting else None),
        spec=PersistentVolumeSpec(capacity={"storage": size}, **{"claim_ref": reference, **given_spec}),
        status=PersistentVolumeStatus(phase=phase),
    )
