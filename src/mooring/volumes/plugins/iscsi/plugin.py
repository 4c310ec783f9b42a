"""`kubernetes.io/iscsi`: LUNs of iSCSI targets, in pods and PersistentVolumes (`iscsi`).

The node logs in. What is as with other disks of a network storage is in `granted_disks`. Nothing is decided
here: sources are read by `source`, and sessions made and ended by `sessions`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from mooring.kube.objects import ISCSIVolumeSource, PersistentVolumeSpec
from mooring.this_boot import boot_id
from mooring.volumes.errors import ContentMissing
from mooring.volumes.host import VolumeHost
from mooring.volumes.interfaces import Served
from mooring.volumes.key_files import secret_contents
from mooring.volumes.plugins.granted_disks import GrantedDiskPlugin
from mooring.volumes.plugins.iscsi import records
from mooring.volumes.plugins.iscsi.devices import Devices
from mooring.volumes.plugins.iscsi.iscsiadm import Iscsiadm
from mooring.volumes.plugins.iscsi.notes import Notes
from mooring.volumes.plugins.iscsi.sessions import Chap, Sessions
from mooring.volumes.plugins.iscsi.source import (
    PLUGIN_NAME,
    Disk,
    disk,
    disk_at,
    global_path,
    volume_name,
    written,
)
from mooring.volumes.plugins.scsi.reservations import key_of
from mooring.volumes.spec import VolumeSpec


class IscsiPlugin(GrantedDiskPlugin):
    """The plugin."""

    thing, grown = "LUN", "grow the LUN at the target"

    @cached_property
    def _sessions(self) -> Sessions:
        """Made when first needed: a controller has no directory for them."""
        notes = Notes(self._host.get_plugin_dir(PLUGIN_NAME), boot_id())
        return Sessions(notes, Iscsiadm(), Devices(), self._host.node_name)

    @property
    def connected(self) -> Sessions:
        return self._sessions

    def get_plugin_name(self) -> str:
        return PLUGIN_NAME

    def get_volume_name(self, spec: VolumeSpec) -> str:
        return volume_name(disk(spec))

    def get_volume_name_at(self, device_mount_path: str) -> str | None:
        found = disk_at(device_mount_path)
        return volume_name(found) if found is not None else None

    def can_support(self, spec: VolumeSpec) -> bool:
        return written(spec) is not None

    def disk(self, spec: VolumeSpec) -> Disk:
        return disk(spec)

    def place(self, spec: VolumeSpec, *, block: bool = False) -> Path:
        return global_path(self._host, disk(spec), block=block)

    async def connect(self, spec: VolumeSpec, path: str, *, block: bool, in_use: bool) -> str:
        wanted = disk(spec)
        key = key_of(spec, self._host.node_name)
        chap = await read_chap(self._host, wanted)
        return await self._sessions.connect(wanted, path, chap, block=block, in_use=in_use, key=key)

    async def size(self, spec: VolumeSpec, path: str) -> tuple[str, int]:
        return await self._sessions.refresh(disk(spec), path)

    def served(self, spec: VolumeSpec) -> Sequence[Served]:
        """Its LUN at each of its portals: a session is made to no other. With an `initiatorName` it is not
        known: a target might let the node in by that name."""
        wanted = disk(spec)
        return (
            []
            if wanted.initiator
            else [Served(f"{wanted.target},{wanted.lun}", str(each)) for each in wanted.portals]
        )

    def source_at(self, path: str) -> PersistentVolumeSpec | None:
        if (found := disk_at(path)) is None:
            return None
        source = ISCSIVolumeSource(
            target_portal=str(found.portals[0]),
            iqn=found.target,
            lun=found.lun,
            iscsi_interface="" if found.base_interface else found.interface,
        )
        return PersistentVolumeSpec(iscsi=source)


async def read_chap(host: VolumeHost, wanted: Disk) -> Chap:
    """What the volume's Secret says, read each time. Raises ContentMissing, InvalidSpec."""
    if wanted.secret is None:
        return Chap({}, {})
    where = f"Secret {wanted.secret.namespace}/{wanted.secret.name}"
    found = await host.get_secret(wanted.secret.namespace, wanted.secret.name)
    if found is None:
        raise ContentMissing(f"{where}, which {wanted} needs for CHAP, does not exist: create it")
    data = secret_contents(found, where)
    return Chap(
        records.chap(data, records.DISCOVERY_AUTH, where) if wanted.chap_discovery else {},
        records.chap(data, records.SESSION_AUTH, where) if wanted.chap_session else {},
    )


def plugin() -> IscsiPlugin:
    """The factory that the entry point names."""
    return IscsiPlugin()
