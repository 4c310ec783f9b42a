"""What of a played case is compared with what upstream's case expects."""

from __future__ import annotations

from typing import Any, cast

from tests.upstream.tables import Json

BINDING_ANNOTATIONS = (
    "pv.kubernetes.io/bind-completed",
    "pv.kubernetes.io/bound-by-controller",
    "pv.kubernetes.io/provisioned-by",
    "pv.kubernetes.io/migrated-to",
    "volume.kubernetes.io/storage-provisioner",
    "volume.beta.kubernetes.io/storage-provisioner",
    "volume.kubernetes.io/selected-node",
)
NAMED = {("metadata", "name"), ("claimRef", "name")}
OF_ADMISSION = ("kubernetes.io/pv-protection", "kubernetes.io/pvc-protection")


def named(value: Any, within: str = "") -> Any:
    """A value in which objects have names that an API server takes."""
    if isinstance(value, list):
        return [named(each, within) for each in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    return {
        name: each.lower().replace("_", "-")
        if isinstance(each, str) and (name in ("volumeName", "claimName") or (within, name) in NAMED)
        else named(each, name)
        for name, each in cast("Json", value).items()
    }


def event_of(text: str) -> str:
    """Returns the type and the reason of an expected event."""
    type_, reason, *_ = text.split()
    return f"{type_} {reason}"


def volume_of(volume: Json, provisioned: bool) -> Json:
    """Returns what is compared of a volume; `provisioned`: the case made it."""
    metadata, spec, status = volume["metadata"], volume["spec"], volume.get("status", {})
    reference = spec.get("claimRef")
    return {
        "annotations": _annotations(metadata),
        "finalizers": sorted(set(metadata.get("finalizers", [])) - set(OF_ADMISSION)),
        "deleting": "deletionTimestamp" in metadata,
        "capacity": spec["capacity"],
        "claimRef": [reference.get(each, "") for each in ("namespace", "name", "uid")] if reference else None,
        "class": spec.get("storageClassName", ""),
        "policy": spec.get("persistentVolumeReclaimPolicy"),
        "mode": spec.get("volumeMode", "Filesystem"),
        "attributes": spec.get("volumeAttributesClassName"),
        "phase": "" if provisioned else status.get("phase", "Pending"),
        "message": bool(status.get("message")),
    }


def claim_of(claim: Json) -> Json:
    """Returns what is compared of a claim."""
    metadata, spec, status = claim["metadata"], claim["spec"], claim.get("status", {})
    return {
        "annotations": _annotations(metadata),
        "volume": spec.get("volumeName", ""),
        "class": spec.get("storageClassName"),
        "phase": status.get("phase"),
        "accessModes": status.get("accessModes", []),
        "capacity": status.get("capacity", {}),
        "attributes": status.get("currentVolumeAttributesClassName"),
    }


def _annotations(metadata: Json) -> Json:
    found = metadata.get("annotations", {})
    return {name: found[name] for name in BINDING_ANNOTATIONS if name in found}


def differences(expected: Json, found: Json) -> list[str]:
    """Each place where what was found is not what was expected, as one line."""
    lines: list[str] = []
    for kind in ("volumes", "claims"):
        for name in sorted({*expected[kind], *found[kind]}):
            if name not in found[kind] or name not in expected[kind]:
                lines.append(f"{kind[:-1]} {name} is {'missing' if name in expected[kind] else 'there'}")
                continue
            theirs, ours = expected[kind][name], found[kind][name]
            lines += [
                f"{kind[:-1]} {name}: {each} is {ours[each]!r}, not {theirs[each]!r}"
                for each in theirs
                if theirs[each] != ours[each]
            ]
    missing = sorted(set(expected["events"]) - set(found["events"]))
    if missing:  # upstream reads no more events than it expects
        lines.append(f"events are {found['events']}, without {missing}")
    return lines


# --- what upstream's cases do in Go
