"""`kubernetes.io/flexvolume`: finds drivers; and each driver as a plugin, under its own name.

Settings of `kubernetes.io/flexvolume`: `directory`, where drivers are (without it there are none), and
`timeoutSeconds` of a call. Setting of a driver, under its name: `refuses=true` if its storage refuses to
attach a volume to a second node; then a node may attach for itself, and no lock is needed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from mooring.kube.objects import FlexVolumeSource, Pod, Volume
from mooring.mounts.blocking import blocking
from mooring.volumes.errors import InvalidSpec, PluginError, VolumeError
from mooring.volumes.host import VolumeHost
from mooring.volumes.interfaces import (
    AttachableVolumePlugin,
    AttachCapabilities,
    ExpandableVolumePlugin,
    Expansion,
    NodeExpandableVolumePlugin,
    PersistentVolumePlugin,
    VolumePlugin,
)
from mooring.volumes.matching import capacity
from mooring.volumes.plugins.flexvolume.attaching import FlexAttacher
from mooring.volumes.plugins.flexvolume.driver import CALL_S, Driver
from mooring.volumes.plugins.flexvolume.folder import DriverFolder, driver_folder
from mooring.volumes.plugins.flexvolume.mounting import FlexMounter, FlexUnmounter
from mooring.volumes.plugins.flexvolume.options import flex_source, options, source_of
from mooring.volumes.spec import VolumeSpec

PLUGIN_NAME = "kubernetes.io/flexvolume"


class FlexDriverPlugin(PersistentVolumePlugin, ExpandableVolumePlugin):
    """A driver whose volumes are mounted for each pod."""

    def __init__(self, driver: Driver, folder: DriverFolder) -> None:
        self.driver = driver
        self._folder = folder

    def init(self, host: VolumeHost) -> None:
        self._host = host

    def get_plugin_name(self) -> str:
        return self.driver.name

    def get_volume_name(self, spec: VolumeSpec) -> str:
        """The spec's own name: upstream asks the driver (`getvolumename`), and does not use the answer."""
        source_of(spec)
        return spec.name

    def can_support(self, spec: VolumeSpec) -> bool:
        source = flex_source(spec)
        gone = self.driver.name in self._folder.gone
        return source is not None and source.driver == self.driver.name and not gone

    def get_access_modes(self) -> Sequence[str]:
        return ("ReadWriteOnce", "ReadOnlyMany")

    def one_at_a_time(self) -> bool:
        """Upstream mounts a volume with a device for one pod after the other, and drivers may count on it."""
        return True

    def new_mounter(self, spec: VolumeSpec, pod: Pod) -> FlexMounter:
        return FlexMounter(self._host, self.driver, spec, pod)

    def new_unmounter(self, spec_name: str, pod_uid: str) -> FlexUnmounter:
        return FlexUnmounter(self._host, self.driver, spec_name, pod_uid)

    async def construct_volume_spec(self, volume_name: str, mount_path: str) -> VolumeSpec:
        source = FlexVolumeSource(driver=self.driver.name)
        return VolumeSpec.of_volume(Volume(name=volume_name, flex_volume=source))

    async def expand_volume_device(self, spec: VolumeSpec, new_size: int) -> Expansion:
        """The device is named as upstream's controllers name it: relative to the directory of plugins, which
        they do not know."""
        old = capacity(spec.persistent_volume) if spec.persistent_volume is not None else 0
        device = f"{self.driver.name}/mounts/{spec.name}"
        await self.driver.call("expandvolume", options(spec), device, str(new_size), str(old))
        return Expansion(new_size, on_node=self._grows_on_nodes())

    def _grows_on_nodes(self) -> bool:
        return False


class AttachableFlexDriverPlugin(FlexDriverPlugin, AttachableVolumePlugin, NodeExpandableVolumePlugin):
    """A driver whose volumes are attached to nodes."""

    def capabilities(self, spec: VolumeSpec) -> AttachCapabilities:
        """A driver does not say what its storage guarantees."""
        refuses = self._host.settings(self.driver.name).get("refuses") == "true"
        return AttachCapabilities(refuses=refuses, revokes=False, multi_attach=True)

    def new_attacher(self) -> FlexAttacher:
        return FlexAttacher(self._host, self.driver)

    def new_detacher(self) -> FlexAttacher:
        return FlexAttacher(self._host, self.driver)

    async def get_device_mount_refs(self, device_mount_path: str) -> Sequence[str]:
        """The mounts of pods: a driver may have mounts of its own."""
        pods = self._host.pods_dir()
        refs = await self._host.mounts.get_device_mount_refs(device_mount_path)
        return [ref for ref in refs if Path(ref).is_relative_to(pods)]

    def _grows_on_nodes(self) -> bool:
        return self.driver.capabilities.requires_fs_resize

    async def expand_fs(self, spec: VolumeSpec, device_mount_path: str) -> None:
        """The driver is told the file system's present size as the old one, and as the device what is
        mounted."""
        device = await self._device_at(spec, device_mount_path)
        new = capacity(spec.persistent_volume) if spec.persistent_volume is not None else 0
        old = await blocking(_size_of, device_mount_path)
        answer = await self.driver.call(
            "expandfs", options(spec), device, device_mount_path, str(new), str(old)
        )
        if answer is None:
            await self._host.mounts.resize(device, device_mount_path)

    async def _device_at(self, spec: VolumeSpec, path: str) -> str:
        table = await self._host.mounts.mount_table()
        sources = [mount.source for mount in table if mount.mount_point == path]
        if not sources:
            raise VolumeError(f"volume {spec.name} is not mounted at {path}: its file system cannot grow now")
        return sources[-1]


class FlexVolumePlugin(VolumePlugin):
    """The finder. No volume is its own."""

    folder: DriverFolder | None = None

    def init(self, host: VolumeHost) -> None:
        self._host = host
        self._plugins: dict[str, FlexDriverPlugin] = {}
        settings = host.settings(PLUGIN_NAME)
        if directory := settings.get("directory"):
            if not Path(directory).is_absolute():
                raise PluginError(
                    f"the setting `directory` of {PLUGIN_NAME} is {directory!r}: give the whole path"
                )
            self.folder = driver_folder(Path(directory), _seconds(settings.get("timeoutSeconds")))

    def get_plugin_name(self) -> str:
        return PLUGIN_NAME

    def can_support(self, spec: VolumeSpec) -> bool:
        return False

    def get_volume_name(self, spec: VolumeSpec) -> str:
        raise self._no_volume(spec.name)

    def new_mounter(self, spec: VolumeSpec, pod: Pod) -> FlexMounter:
        raise self._no_volume(spec.name)

    def new_unmounter(self, spec_name: str, pod_uid: str) -> FlexUnmounter:
        raise self._no_volume(spec_name)

    async def construct_volume_spec(self, volume_name: str, mount_path: str) -> VolumeSpec:
        raise self._no_volume(volume_name)

    def found_plugins(self) -> Mapping[str, VolumePlugin]:
        drivers = self.folder.drivers if self.folder is not None else {}
        for name, driver in drivers.items():
            known = self._plugins.get(name)
            if known is None or known.driver is not driver:
                self._plugins[name] = self._plugin_of(driver)
        return self._plugins

    def what_is_missing(self, spec: VolumeSpec) -> str:
        source = flex_source(spec)
        if source is None:
            return ""
        if self.folder is None:
            return f"no directory of FlexVolume drivers is set, where {source.driver[:200]!a} could be"
        if problem := self.folder.problems.get(source.driver):
            return problem
        vendor, slash, driver = source.driver.partition("/")
        if not (vendor and slash and driver) or "/" in driver:
            return f"flexVolume.driver is {source.driver[:200]!a}: it has the form <vendor>/<driver>"
        place = f"{self.folder.directory}/{vendor}~{driver}/{driver}"
        return f"there is no FlexVolume driver {source.driver[:200]!a} on this machine: put it at {place[:600]!a}"

    def _plugin_of(self, driver: Driver) -> FlexDriverPlugin:
        assert self.folder is not None
        kind = AttachableFlexDriverPlugin if driver.capabilities.attach else FlexDriverPlugin
        made = kind(driver, self.folder)
        made.init(self._host)
        return made

    def _no_volume(self, name: str) -> InvalidSpec:
        return InvalidSpec(f"volume {name} is of no FlexVolume driver: {PLUGIN_NAME} itself has no volumes")


def folder_of(plugins: Iterable[VolumePlugin]) -> DriverFolder | None:
    """The drivers that the plugins find; None if no directory is set."""
    return next((each.folder for each in plugins if isinstance(each, FlexVolumePlugin)), None)


def _size_of(path: str) -> int:
    status = os.statvfs(path)
    return status.f_blocks * status.f_frsize


def _seconds(text: str | None) -> float:
    try:
        seconds = float(text) if text else CALL_S
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 86400:
        raise PluginError(
            f"the setting `timeoutSeconds` of {PLUGIN_NAME} is {text!r}: give seconds, up to a day"
        )
    return seconds
