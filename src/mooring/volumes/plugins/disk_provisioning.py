"""Creates and deletes disks for claims of `mooring.dev/disk`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from mooring.kube.objects import (
    FlexVolumeSource,
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
)
from mooring.kube.quantity import InvalidQuantity, format_bytes, parse_bytes
from mooring.mounts.blocking import blocking
from mooring.volumes.errors import InvalidSpec, VolumeNotFound
from mooring.volumes.exclusivity import SHARED_MODES
from mooring.volumes.interfaces import Deleter, Provisioner, VolumeOptions
from mooring.volumes.matching import PROVISIONED_BY
from mooring.volumes.plugins.disk_array import Disk, DiskArray
from mooring.volumes.plugins.disk_faults import meet_trouble
from mooring.volumes.plugins.disk_snapshots import DiskSnapshots
from mooring.volumes.plugins.disk_source import PLUGIN_NAME, DiskSource, Parameters, parameters

MIB = 1024 * 1024


class DiskProvisioner(Provisioner):
    """Makes the disk `options.pv_name`."""

    def __init__(
        self, array: DiskArray, snapshots: DiskSnapshots, options: VolumeOptions, gives_devices: bool
    ) -> None:
        self._array = array
        self._snapshots = snapshots
        self._gives_devices = gives_devices
        self._options = options

    async def provision(self) -> PersistentVolume:
        given = parameters(self._options.parameters)
        claim = self._options.claim
        _refuse_impossible(claim, given)
        if claim.spec.volume_mode == "Block" and not self._gives_devices:
            raise InvalidSpec(
                f"claim {claim.key} wants volumeMode Block, but disks are directories here: run as root"
            )
        size = requested_size(claim)
        disk = await blocking(self._make, self._options.pv_name, size, given)
        return _persistent_volume(self._options, given, disk.size)

    def _make(self, name: str, size: int, given: Parameters) -> Disk:
        def make(fill: Callable[[Path], None] | None = None) -> Disk:
            return self._array.create(name, size, given.exclusive, given.delays, fill)

        content = self._options.content
        return make() if content is None else self._snapshots.restore(content, name, size, make)


class DiskDeleter(Deleter):
    """Destroys one disk."""

    def __init__(self, array: DiskArray, source: DiskSource) -> None:
        self._array = array
        self._source = source

    def get_path(self) -> str:
        return ""

    async def delete(self) -> None:
        with suppress(VolumeNotFound):
            await meet_trouble(self._array, self._source.disk, "delete")
        await blocking(self._array.delete, self._source.disk)


def requested_size(claim: PersistentVolumeClaim) -> int:
    """Bytes that the claim asks for, rounded up to whole MiB. Raises InvalidSpec."""
    request = claim.spec.resources.requests.get("storage", 0)
    try:
        size = parse_bytes(request)
    except InvalidQuantity as error:
        raise InvalidSpec(f"claim {claim.key} asks for {request!r} of storage: {error}") from error
    if size <= 0:
        raise InvalidSpec(
            f"claim {claim.key} asks for {request!r} of storage: set spec.resources.requests.storage"
        )
    return whole_mib(size)


def whole_mib(size: int) -> int:
    """A disk's size for so many bytes: rounded up, since a device shows whole sectors only."""
    return -(-size // MIB) * MIB


def _refuse_impossible(claim: PersistentVolumeClaim, given: Parameters) -> None:
    shared = SHARED_MODES.intersection(claim.spec.access_modes)
    if shared and given.exclusive:
        raise InvalidSpec(
            f"claim {claim.key} wants {', '.join(sorted(shared))}, but the disks of its StorageClass are exclusive to "
            f'one node: ask for ReadWriteOnce, or use a class with the parameter exclusive: "false"'
        )


def _persistent_volume(options: VolumeOptions, given: Parameters, size: int) -> PersistentVolume:
    flex_options = {"disk": options.pv_name, "exclusive": str(given.exclusive).lower()}
    return PersistentVolume(
        metadata=ObjectMeta(name=options.pv_name, annotations={PROVISIONED_BY: PLUGIN_NAME}),
        spec=PersistentVolumeSpec(
            capacity={"storage": format_bytes(size)},
            access_modes=options.claim.spec.access_modes,
            persistent_volume_reclaim_policy=options.reclaim_policy,
            storage_class_name=options.claim.storage_class,
            volume_mode=options.claim.spec.volume_mode,
            mount_options=options.mount_options,
            flex_volume=FlexVolumeSource(
                driver=PLUGIN_NAME,
                fs_type="" if options.claim.spec.volume_mode == "Block" else given.fs_type,
                options=flex_options,
            ),
        ),
    )
