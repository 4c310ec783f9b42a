"""Volumes that are attached by a lock alone: every node may reach their storage, which knows of no attach.

For network storage that is neither asked to attach nor refuses a second node (iSCSI, Fibre Channel, NFS). A
PersistentVolume that one node at a time may have (ReadWriteOnce, ReadWriteOncePod) is granted by the lock on
it (`attachment_lock`, docs/protocol.md C14), and a node waits for that before it logs in. The pod-safety
proposal, "Storage Consistency": this is its compare-and-swap.

What several nodes may share, and what a pod defines itself, has no such lock: it is not attached, as in
upstream.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from mooring.mounts.blocking import blocking
from mooring.volumes.errors import PluginError
from mooring.volumes.exclusivity import is_multi_attach_allowed
from mooring.volumes.host import VolumeHost
from mooring.volumes.interfaces import (
    AttachableVolumePlugin,
    AttachCapabilities,
    Attacher,
    Attachment,
    Detacher,
)
from mooring.volumes.spec import VolumeSpec

SETTING = "lock"


class Granted(Attacher, Detacher):
    """Nothing is asked of the storage. The device is found when it is mounted."""

    async def attach(self, spec: VolumeSpec, node_name: str) -> Attachment:
        return {}

    async def detach(self, volume_name: str, node_name: str) -> None:
        return

    async def volumes_are_attached(
        self, specs: Sequence[VolumeSpec], node_name: str
    ) -> Mapping[VolumeSpec, bool]:
        """No storage can say: the lock is all there is."""
        return {}

    async def wait_for_attach(self, spec: VolumeSpec, attachment: Attachment, timeout_s: float) -> str:
        return ""


class GrantedVolumePlugin(AttachableVolumePlugin):
    """Setting `lock=false` of the plugin: its volumes are not attached at all, and nothing keeps a second
    node out. That is for nodes that do not wait for an attachment, as upstream's kubelets do not for these
    volumes."""

    _host: VolumeHost
    _locks = True

    def init(self, host: VolumeHost) -> None:
        self._host = host
        self._locks = _boolean(
            host.settings(self.get_plugin_name()).get(SETTING, "true"), self.get_plugin_name()
        )

    def can_attach(self, spec: VolumeSpec) -> bool:
        return self._locks and not is_multi_attach_allowed(spec)

    def capabilities(self, spec: VolumeSpec) -> AttachCapabilities:
        """No request ever goes out, so none can take effect later."""
        return AttachCapabilities(refuses=False, revokes=False, multi_attach=True, request_validity_s=0.0)


class GrantedShare(Granted):
    """What a node has once of a volume that each pod mounts for itself: the permission to. It is a directory,
    which is empty; the agent's record of it names the attachment under which pods have mounted."""

    def __init__(self, directory: Callable[[VolumeSpec], Path]) -> None:
        self._directory = directory

    def get_device_mount_path(self, spec: VolumeSpec) -> str:
        return str(self._directory(spec))

    async def mount_device(self, spec: VolumeSpec, device_path: str, device_mount_path: str) -> None:
        await blocking(os.makedirs, device_mount_path, 0o750, exist_ok=True)

    async def unmount_device(self, device_mount_path: str) -> None:
        """Only after the last pod's mount has gone, as the agent sees to."""
        with contextlib.suppress(FileNotFoundError):
            await blocking(os.rmdir, device_mount_path)


class GrantedSharePlugin(GrantedVolumePlugin):
    """Its volumes are files of a server: each pod has a mount of its own."""

    def can_device_mount(self, spec: VolumeSpec) -> bool:
        return self.can_attach(spec)

    def new_attacher(self) -> GrantedShare:
        return GrantedShare(self._granted)

    def new_detacher(self) -> GrantedShare:
        return GrantedShare(self._granted)

    async def get_device_mount_refs(self, device_mount_path: str) -> Sequence[str]:
        """Nothing is mounted there, so nothing shows it."""
        return ()

    def _granted(self, spec: VolumeSpec) -> Path:
        name = hashlib.sha256(self.get_volume_name(spec).encode()).hexdigest()[:32]
        return self._host.get_plugin_dir(self.get_plugin_name()) / "granted" / name


def _boolean(text: str, plugin: str) -> bool:
    if text not in ("true", "false"):
        raise PluginError(f"the setting `{SETTING}` of {plugin} is {text[:100]!r}: write true or false")
    return text == "true"
