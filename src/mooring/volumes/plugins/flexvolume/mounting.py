"""Gives a driver's volume to a pod, and takes it back.

A driver without `mount` has mounted the device once for the node; pods get bind mounts of that.
"""

from __future__ import annotations

import contextlib
import os

import structlog

from mooring.kube.objects import Pod
from mooring.mounts.blocking import blocking
from mooring.volumes.errors import ContentMissing, InvalidSpec, VolumeError
from mooring.volumes.host import VolumeHost
from mooring.volumes.interfaces import Attributes, Metrics, MetricsNotSupported
from mooring.volumes.ownership import give_to_group, on_root_mismatch
from mooring.volumes.plugins.flexvolume.attaching import FlexAttacher, must_be_unmounted
from mooring.volumes.plugins.flexvolume.driver import Driver
from mooring.volumes.plugins.flexvolume.options import SECRET, is_read_only, options, pod_options, secret_of
from mooring.volumes.pod_directory import PodDirectoryMounter, PodDirectoryUnmounter
from mooring.volumes.spec import VolumeSpec

log = structlog.get_logger(__name__)


class FlexMounter(PodDirectoryMounter):
    """Calls the driver's `mount`."""

    def __init__(self, host: VolumeHost, driver: Driver, spec: VolumeSpec, pod: Pod) -> None:
        super().__init__(host, driver.name, spec, pod)
        self._driver = driver
        self._spec = spec
        self._pod = pod
        self._read_only = is_read_only(spec)

    def get_attributes(self) -> Attributes:
        abilities = self._driver.capabilities
        return Attributes(
            read_only=self._read_only,
            managed=not self._read_only,
            supports_selinux=abilities.selinux_relabel,
        )

    async def get_metrics(self) -> Metrics:
        if not self._driver.capabilities.supports_metrics:
            raise MetricsNotSupported(f"FlexVolume driver {self._driver.name} does not say supportsMetrics")
        return await super().get_metrics()

    async def can_mount(self) -> None:
        if not os.access(self._driver.executable, os.X_OK):
            raise FileNotFoundError(
                f"FlexVolume driver {self._driver.name} is not at {self._driver.executable}: put it there"
            )

    async def set_up_at(self, directory: str, fs_group: int | None = None) -> None:
        if await self._host.mounts.is_mount_point(directory):
            return
        secret = await self._secret()
        given = options(self._spec, {**pod_options(self._pod, fs_group), **secret})
        await blocking(os.makedirs, directory, 0o750, exist_ok=True)
        try:
            answer = await self._driver.call("mount", directory, given, hidden=secret.values())
            if answer is None:
                await self._bind(directory)
        except Exception:
            with contextlib.suppress(
                OSError
            ):  # it is mounted, or not empty: the driver got further than it says
                os.rmdir(directory)
            raise
        if fs_group is not None and not self._read_only and self._driver.capabilities.fs_group:
            await self._give_to(fs_group, directory)

    async def _bind(self, directory: str) -> None:
        source = FlexAttacher(self._host, self._driver).get_device_mount_path(self._spec)
        if not await self._host.mounts.is_mount_point(source):
            raise VolumeError(
                f"FlexVolume driver {self._driver.name} does not support mount, and has mounted nothing at {source}: "
                f"it must support mount, or mountdevice, or name the device of volume {self._spec.name} in its answers"
            )
        await self._host.mounts.bind_mount(source, directory, self._read_only)

    async def _give_to(self, group: int, directory: str) -> None:
        """As in upstream, a driver whose files' owners cannot be changed does not keep the pod from them."""
        lazy = on_root_mismatch(self._pod)
        try:
            await blocking(give_to_group, directory, group, on_root_mismatch=lazy)
        except OSError as error:
            log.warning(
                "FlexVolume not given to fsGroup: its driver should say fsGroup: false",
                driver=self._driver.name,
                volume=self._spec.name,
                pod=self._pod.key,
                error=str(error),
            )

    async def _secret(self) -> dict[str, str]:
        """The options of the Secret. As in upstream its type must be the driver's name."""
        reference = secret_of(self._spec, self._pod.metadata.namespace)
        if reference is None:
            return {}
        key = f"{reference.namespace}/{reference.name}"
        secret = await self._host.get_secret(reference.namespace, reference.name)
        if secret is None:
            raise ContentMissing(f"secret {key} of volume {self._spec.name} does not exist: make it")
        if secret.type != self._driver.name:
            raise InvalidSpec(
                f"secret {key} of volume {self._spec.name} has type {secret.type!a}: FlexVolume driver "
                f"{self._driver.name} gets Secrets of the type {self._driver.name} only"
            )
        return {SECRET + name: value for name, value in secret.data.items()}


class FlexUnmounter(PodDirectoryUnmounter):
    """Calls the driver's `unmount`. Content is never removed."""

    def __init__(self, host: VolumeHost, driver: Driver, spec_name: str, pod_uid: str) -> None:
        super().__init__(host, driver.name, spec_name, pod_uid)
        self._driver = driver

    async def tear_down_at(self, directory: str) -> None:
        if not await blocking(os.path.lexists, directory):
            return
        answer = await self._driver.call("unmount", directory)
        if answer is not None:
            await must_be_unmounted(self._host, self._driver, "unmount", directory)
        await self._host.mounts.remove_mount_point(directory)
