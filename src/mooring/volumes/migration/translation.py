"""Whole objects from the old form to CSI and back, and what others ask of them: driver, handle, spec."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, TypeAlias

from msgspec.structs import replace

from mooring.kube.objects import (
    CSIPersistentVolumeSource,
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeSpec,
    Volume,
)
from mooring.volumes.directories import LONGEST_ENTRY
from mooring.volumes.errors import InvalidSpec
from mooring.volumes.migration import topology
from mooring.volumes.migration.kind import InTreeKind
from mooring.volumes.migration.kinds import BY_DRIVER, BY_PROVISIONER, KINDS, Migrated
from mooring.volumes.spec import VolumeSpec

Source: TypeAlias = PersistentVolumeSpec | Volume


def driver_of(provisioner: str) -> str:
    """Returns the CSI driver that took an in-tree provisioner's place; any other provisioner's own name."""
    kind = BY_PROVISIONER.get(provisioner)
    return kind.driver if kind is not None else provisioner


def migrated(source: Source, labels: Mapping[str, str] = {}) -> Migrated | None:
    """Returns the CSI volume that a PersistentVolume (with its labels) or a volume of a pod is, if it is one
    that is attached; None if it is of another kind, or has no id that can be understood."""
    kind = _kind_of(source)
    if kind is None or not kind.attached:
        return None
    try:
        handle = kind.handle(kind.source_of(source), labels)
    except InvalidSpec:
        return None  # the node says so in the pod's events, when it translates the volume
    return Migrated(kind.driver, handle) if handle else None


def migrated_spec(spec: VolumeSpec) -> Migrated | None:
    """The same for a spec, wherever it is written."""
    if spec.persistent_volume is not None:
        return migrated(spec.persistent_volume.spec, spec.persistent_volume.metadata.labels)
    return migrated(spec.volume) if spec.volume is not None else None


def to_csi(pv: PersistentVolume) -> PersistentVolume:
    """Returns the PersistentVolume in its CSI form; one of another kind as it is. Raises InvalidSpec if CSI
    has no such volume."""
    kind = _kind_of(pv.spec)
    if kind is None:
        return pv
    source = kind.csi(kind.source_of(pv.spec), pv)
    modes = kind.access_modes(pv.spec.access_modes)
    spec = replace(pv.spec, csi=source, access_modes=modes, **{kind.field: None})
    moved = replace(pv, spec=spec)
    if kind.region_key:
        return topology.zone_and_region_to_csi(moved, kind.zone_key, kind.region_key)
    return topology.zone_to_csi(moved, kind.zone_key) if kind.zone_key else moved


def inline_to_csi(volume: Volume, namespace: str) -> PersistentVolume | None:
    """Returns the PersistentVolume that stands for a volume which a pod in `namespace` defines itself, under
    a name of its own for each disk; None for a volume of another kind. Raises InvalidSpec."""
    kind = _kind_of(volume)
    if kind is None:
        return None
    written = kind.source_of(volume)
    source = kind.inline_csi(written, volume.name, namespace)
    return PersistentVolume(
        metadata=ObjectMeta(name=kind.inline_name(written, source.volume_handle)),
        spec=PersistentVolumeSpec(csi=source, access_modes=(kind.inline_access_mode(written),)),
    )


def to_in_tree(pv: PersistentVolume) -> PersistentVolume:
    """Returns a CSI PersistentVolume in the form of the in-tree plugin that its driver replaced; any other as
    it is. Raises InvalidSpec if the plugin had no such volume."""
    source = pv.spec.csi
    kind = BY_DRIVER.get(source.driver) if source is not None else None
    if source is None or kind is None:
        return pv
    moved = pv
    if kind.region_key:
        moved = topology.zone_and_region_to_in_tree(pv, kind.zone_key, kind.region_key)
    elif kind.zone_key:
        region_of = kind.region_of if kind.zones_tell_region else None
        moved = topology.zone_to_in_tree(pv, kind.zone_key, region_of)
    written: Any = kind.in_tree(source)
    annotations = {**pv.metadata.annotations, **kind.annotations(source)}
    return replace(
        moved,
        metadata=replace(moved.metadata, annotations=annotations),
        spec=replace(moved.spec, csi=None, **{kind.field: written}),
    )


def as_csi(spec: VolumeSpec, namespace: str) -> VolumeSpec:
    """Returns the spec that a node works on for a volume of a pod in `namespace`: a former in-tree volume as
    the CSI volume that it is, any other unchanged. The name of one that a pod defines itself can be that of
    a directory. Raises InvalidSpec."""
    if spec.persistent_volume is not None:
        return replace(spec, persistent_volume=to_csi(spec.persistent_volume))
    pv = inline_to_csi(spec.volume, namespace) if spec.volume is not None else None
    if pv is None:
        return spec
    named = replace(pv, metadata=ObjectMeta(name=_entry(pv.name)))
    return VolumeSpec.of_persistent_volume(named)


def csi_source(spec: VolumeSpec) -> CSIPersistentVolumeSource | None:
    """Returns the CSI source of a PersistentVolume, also of a former in-tree volume in whatever form it is
    written; None for any other. Raises InvalidSpec."""
    if spec.persistent_volume is not None:
        return spec.persistent_volume.spec.csi or to_csi(spec.persistent_volume).spec.csi
    pv = inline_to_csi(spec.volume, "") if spec.volume is not None else None
    return pv.spec.csi if pv is not None else None


def _entry(name: str) -> str:
    """Kubelets write `~` for `/`; a name too long for a directory is cut, with a hash of the whole."""
    escaped = name.replace("/", "~")
    if len(escaped.encode()) <= LONGEST_ENTRY:
        return escaped
    return f"{escaped.encode()[:180].decode(errors='ignore')}-{hashlib.sha256(name.encode()).hexdigest()}"


def _kind_of(holder: Source) -> InTreeKind[Any] | None:
    return next((kind for kind in KINDS if kind.source_of(holder) is not None), None)
