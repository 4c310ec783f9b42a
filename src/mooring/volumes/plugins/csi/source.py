"""The CSI part of a volume's spec: driver, handle, attributes, secrets. Calls no driver."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass

from mooring.csi.proto import csi_pb2 as csi
from mooring.kube.objects import (
    CSIPersistentVolumeSource,
    LocalObjectReference,
    PersistentVolumeClaim,
    Pod,
    Secret,
    SecretReference,
)
from mooring.volumes.errors import InvalidSpec, NotAsked
from mooring.volumes.host import VolumeHost
from mooring.volumes.migration import csi_source, to_csi
from mooring.volumes.spec import VolumeSpec

Mode = csi.VolumeCapability.AccessMode


@dataclass(frozen=True)
class Inline:
    """A volume that a pod defines itself, as far as a driver sees it."""

    driver: str
    fs_type: str
    read_only: bool
    attributes: dict[str, str]
    secret: LocalObjectReference | None


def persistent(spec: VolumeSpec) -> CSIPersistentVolumeSource:
    """Returns the CSI source of a PersistentVolume, also of one of a former in-tree plugin
    (`migration`). Raises InvalidSpec."""
    source = csi_source(spec)
    if source is None or not (source.driver and source.volume_handle):
        raise InvalidSpec(f"volume {spec.name} has no csi.driver and csi.volumeHandle")
    return source


def inline(spec: VolumeSpec) -> Inline | None:
    """The source of a volume that a pod defines itself; None for a PersistentVolume's."""
    source = spec.volume.csi if spec.volume else None
    if source is None:
        return None
    attributes = dict(source.volume_attributes)
    return Inline(
        source.driver, source.fs_type or "", source.read_only, attributes, source.node_publish_secret_ref
    )


def inline_handle(pod: Pod, spec: VolumeSpec) -> str:
    """Returns the handle of a volume that a pod defines itself: the same at every try, and
    different from any other pod's."""
    return f"csi-{hashlib.sha256(f'{pod.uid}/{spec.name}'.encode()).hexdigest()}"


def access_mode(modes: tuple[str, ...], *, several_writers: bool) -> Mode.Mode:
    """Returns the one CSI access mode for the modes of a PersistentVolume. `several_writers`: the driver
    knows the two modes that tell one pod of a node from several (SINGLE_NODE_MULTI_WRITER)."""
    if "ReadWriteMany" in modes:
        return Mode.MULTI_NODE_MULTI_WRITER
    if "ReadOnlyMany" in modes:
        return Mode.MULTI_NODE_READER_ONLY if len(modes) == 1 else Mode.MULTI_NODE_SINGLE_WRITER
    if not several_writers:
        return Mode.SINGLE_NODE_WRITER
    return Mode.SINGLE_NODE_SINGLE_WRITER if modes == ("ReadWriteOncePod",) else Mode.SINGLE_NODE_MULTI_WRITER


def capability(
    *,
    block: bool,
    mode: Mode.Mode,
    fs_type: str = "",
    mount_flags: tuple[str, ...] = (),
    mount_group: str = "",
) -> csi.VolumeCapability:
    """How a volume is used. `mount_group`: the group that its files are to have, as a number."""
    access = csi.VolumeCapability.AccessMode(mode=mode)
    if block:
        return csi.VolumeCapability(block=csi.VolumeCapability.BlockVolume(), access_mode=access)
    mount = csi.VolumeCapability.MountVolume(
        fs_type=fs_type, mount_flags=mount_flags, volume_mount_group=mount_group
    )
    return csi.VolumeCapability(mount=mount, access_mode=access)


def capability_of(spec: VolumeSpec, *, several_writers: bool, mount_group: str = "") -> csi.VolumeCapability:
    """How a PersistentVolume is used."""
    assert spec.persistent_volume is not None
    modes = to_csi(spec.persistent_volume).spec.access_modes
    mode = access_mode(tuple(modes), several_writers=several_writers)
    return capability(
        block=spec.block,
        mode=mode,
        fs_type=persistent(spec).fs_type,
        mount_flags=tuple(spec.mount_options),
        mount_group=mount_group,
    )


def capabilities_of_claim(
    claim: PersistentVolumeClaim, fs_type: str, mount_flags: tuple[str, ...], *, several_writers: bool
) -> list[csi.VolumeCapability]:
    """How a volume that is made for a claim will be used: one capability for each of its access modes."""
    block = claim.spec.volume_mode == "Block"
    modes = dict.fromkeys(
        access_mode((mode,), several_writers=several_writers) for mode in claim.spec.access_modes
    )
    return [capability(block=block, mode=mode, fs_type=fs_type, mount_flags=mount_flags) for mode in modes]


async def read_secret(host: VolumeHost, reference: SecretReference | None) -> dict[str, str]:
    """The Secret's content for a request; nothing for None. Raises NotAsked if it is missing,
    InvalidSpec if it is not text."""
    if reference is None:
        return {}
    where = f"{reference.namespace}/{reference.name}"
    found = await host.objects.find(Secret, reference.name, reference.namespace)
    if found is None:
        raise NotAsked(f"Secret {where}, which the volume or its class names, is missing: create it")
    try:
        return {key: base64.b64decode(value).decode() for key, value in found.data.items()}
    except ValueError:
        raise InvalidSpec(f"Secret {where} holds what is not text: CSI takes text") from None
