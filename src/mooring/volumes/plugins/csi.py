"""`kubernetes.io/csi`: volumes of CSI drivers, as far as the attach/detach controller knows them: names and abilities.

Their VolumeAttachments name the driver, whose own attacher carries them out. Nothing is mounted here yet: a node agent
refuses a pod with such a volume, and says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from mooring.kube.objects import CSIPersistentVolumeSource, Pod
from mooring.volumes.errors import InvalidSpec
from mooring.volumes.host import VolumeHost
from mooring.volumes.interfaces import AttachableVolumePlugin, AttachCapabilities, PersistentVolumePlugin
from mooring.volumes.names import CSI_PLUGIN, csi_volume_name
from mooring.volumes.spec import VolumeSpec


class CSIPlugin(AttachableVolumePlugin, PersistentVolumePlugin):
    """The plugin; which drivers there are is told by the API, not by it."""

    def init(self, host: VolumeHost) -> None:
        return

    def get_plugin_name(self) -> str:
        return CSI_PLUGIN

    def get_volume_name(self, spec: VolumeSpec) -> str:
        source = _source(spec)
        if source is None or not (source.driver and source.volume_handle):
            raise InvalidSpec(f"volume {spec.name} has no csi.driver and csi.volumeHandle")
        return csi_volume_name(source.driver, source.volume_handle)

    def can_support(self, spec: VolumeSpec) -> bool:
        return _source(spec) is not None

    def get_access_modes(self) -> Sequence[str]:
        return ("ReadWriteOnce", "ReadWriteOncePod", "ReadOnlyMany", "ReadWriteMany")

    def capabilities(self, spec: VolumeSpec) -> AttachCapabilities:
        """The CSI specification has ControllerPublishVolume fail for a volume that another node has."""
        return AttachCapabilities(refuses=True, revokes=False, multi_attach=True)

    def new_attacher(self) -> NoReturn:
        raise InvalidSpec("CSI volumes are attached by their driver's attacher")

    def new_detacher(self) -> NoReturn:
        raise InvalidSpec("CSI volumes are detached by their driver's attacher")

    def new_mounter(self, spec: VolumeSpec, pod: Pod) -> NoReturn:
        raise _not_on_this_node()

    def new_unmounter(self, spec_name: str, pod_uid: str) -> NoReturn:
        raise _not_on_this_node()

    async def get_device_mount_refs(self, device_mount_path: str) -> Sequence[str]:
        raise _not_on_this_node()

    async def construct_volume_spec(self, volume_name: str, mount_path: str) -> VolumeSpec:
        raise _not_on_this_node()


def _source(spec: VolumeSpec) -> CSIPersistentVolumeSource | None:
    return spec.persistent_volume.spec.csi if spec.persistent_volume else None


def _not_on_this_node() -> InvalidSpec:
    return InvalidSpec("this node agent cannot mount CSI volumes: use a node with a kubelet, or another kind of volume")


def plugin() -> CSIPlugin:
    """The factory that the entry point names."""
    return CSIPlugin()
