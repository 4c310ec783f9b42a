"""What a plugin may ask of the process that it runs in: the protocol `VolumeHost` and its
two implementations.

Layout on a node, like the kubelet's:

    <root>/pods/<pod uid>/volumes/<plugin, / as ~>/<spec name>     a pod's volume
    <root>/pods/<pod uid>/volumeDevices/<plugin, / as ~>/<spec name>    a link to a raw device
    <root>/plugins/<plugin, / as ~>/mounts/<volume name>    a device, mounted once for all pods of the node
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Protocol, TypeVar

from mooring.kube.objects import ConfigMap, Object, Pod, Secret
from mooring.mounts.interface import Mounts
from mooring.volumes.directories import entry
from mooring.volumes.errors import PluginError
from mooring.volumes.names import escape_plugin_name

Settings = Mapping[str, Mapping[str, str]]
"""Plugin name to its settings, as the operator gave them to this process."""


T = TypeVar("T", bound=Object)
T_co = TypeVar("T_co", bound=Object, covariant=True)


class Objects(Protocol[T_co]):
    """The answer to a list."""

    @property
    def items(self) -> Sequence[T_co]: ...


class ObjectReader(Protocol):
    """Reads objects live from the API server; raises what the API client raises."""

    async def find(self, kind: type[T], name: str, namespace: str = "", /) -> T | None:
        """The object, or None if there is none."""
        ...

    async def list(self, kind: type[T], namespace: str = "", /) -> Objects[T]: ...


@dataclass(frozen=True)
class AccountToken:
    """A token of a service account, a secret, and when it expires."""

    token: str = field(repr=False)
    expires: datetime


class VolumeHost(Protocol):
    """Given to each plugin's `init`. On a controller only `settings`, `now`, `objects` and
    `check_leading` work; the rest raises PluginError."""

    @property
    def node_name(self) -> str:
        """The node of this process; "" on a controller."""
        ...

    @property
    def mounts(self) -> Mounts: ...

    @property
    def now(self) -> Callable[[], datetime]:
        """The wall clock in UTC, for times that people read."""
        ...

    @property
    def objects(self) -> ObjectReader:
        """Reads the API server with this process's rights. Raises PluginError if this
        process does not read for plugins."""
        ...

    def check_leading(self) -> None:
        """Before a request is sent to a storage. Raises what the API client raises on a controller that has
        lost its Lease."""
        ...

    @property
    def allocatable(self) -> Mapping[str, str]:
        """The allocatable resources of the node; empty on a controller."""
        ...

    def settings(self, plugin: str) -> Mapping[str, str]:
        """The operator's settings for the plugin; empty when there are none."""
        ...

    def pods_dir(self) -> Path:
        """The directory of all pods' directories."""
        ...

    def pod_dir(self, pod_uid: str) -> Path:
        """The directory of everything that belongs to one pod."""
        ...

    def get_pod_volume_dir(self, pod_uid: str, plugin: str, spec_name: str) -> Path:
        """Where a pod's volume is set up."""
        ...

    def get_pod_device_path(self, pod_uid: str, plugin: str, spec_name: str) -> Path:
        """Where a pod's raw device is linked."""
        ...

    def get_plugin_dir(self, plugin: str) -> Path:
        """The plugin's own directory on this node."""
        ...

    async def get_config_map(self, namespace: str, name: str) -> ConfigMap | None:
        """The ConfigMap, or None if there is none. Raises what the API client raises."""
        ...

    async def get_secret(self, namespace: str, name: str) -> Secret | None:
        """The Secret, or None if there is none. Raises what the API client raises."""
        ...

    async def get_token(self, pod: Pod, audience: str, seconds: int) -> AccountToken:
        """A token of the pod's service account, for an audience ("": the API server) and that many seconds.
        Raises ContentMissing, and what the API client raises."""
        ...


@dataclass(frozen=True)
class NodeVolumeHost:
    """The host of a node agent. `root` is the agent's directory."""

    node_name: str
    root: Path
    mounts: Mounts
    now: Callable[[], datetime]
    fetch_config_map: Callable[[str, str], Awaitable[ConfigMap | None]]
    fetch_secret: Callable[[str, str], Awaitable[Secret | None]]
    plugin_settings: Settings = field(default_factory=dict[str, Mapping[str, str]])
    allocatable: Mapping[str, str] = field(default_factory=dict[str, str])
    reader: ObjectReader | None = None
    fetch_token: Callable[[Pod, str, int], Awaitable[AccountToken]] | None = None

    @property
    def objects(self) -> ObjectReader:
        return _given(self.reader)

    def check_leading(self) -> None:
        """No Lease is needed on a node."""

    def settings(self, plugin: str) -> Mapping[str, str]:
        return self.plugin_settings.get(plugin, {})

    def pods_dir(self) -> Path:
        return self.root / "pods"

    def pod_dir(self, pod_uid: str) -> Path:
        return self.pods_dir() / entry(pod_uid)

    def get_pod_volume_dir(self, pod_uid: str, plugin: str, spec_name: str) -> Path:
        return self.pod_dir(pod_uid) / "volumes" / entry(escape_plugin_name(plugin)) / entry(spec_name)

    def get_pod_device_path(self, pod_uid: str, plugin: str, spec_name: str) -> Path:
        return self.pod_dir(pod_uid) / "volumeDevices" / entry(escape_plugin_name(plugin)) / entry(spec_name)

    def get_plugin_dir(self, plugin: str) -> Path:
        return self.root / "plugins" / entry(escape_plugin_name(plugin))

    async def get_config_map(self, namespace: str, name: str) -> ConfigMap | None:
        return await self.fetch_config_map(namespace, name)

    async def get_secret(self, namespace: str, name: str) -> Secret | None:
        return await self.fetch_secret(namespace, name)

    async def get_token(self, pod: Pod, audience: str, seconds: int) -> AccountToken:
        if self.fetch_token is None:
            raise PluginError("tokens of service accounts cannot be had without an API server")
        return await self.fetch_token(pod, audience, seconds)


@dataclass(frozen=True)
class ControllerVolumeHost:
    """The host of a controller: no node, no directories, no mounts. `leads`: raises where it has lost its
    Lease."""

    now: Callable[[], datetime]
    plugin_settings: Settings = field(default_factory=dict[str, Mapping[str, str]])
    reader: ObjectReader | None = None
    leads: Callable[[], None] = lambda: None

    @property
    def objects(self) -> ObjectReader:
        return _given(self.reader)

    def check_leading(self) -> None:
        self.leads()

    @property
    def node_name(self) -> str:
        return ""

    @property
    def allocatable(self) -> Mapping[str, str]:
        return {}

    @property
    def mounts(self) -> Mounts:
        raise _not_on_a_controller("mounts")

    def settings(self, plugin: str) -> Mapping[str, str]:
        return self.plugin_settings.get(plugin, {})

    def pods_dir(self) -> Path:
        raise _not_on_a_controller("pod directories")

    def pod_dir(self, pod_uid: str) -> Path:
        raise _not_on_a_controller("pod directories")

    def get_pod_volume_dir(self, pod_uid: str, plugin: str, spec_name: str) -> Path:
        raise _not_on_a_controller("pod directories")

    def get_pod_device_path(self, pod_uid: str, plugin: str, spec_name: str) -> Path:
        raise _not_on_a_controller("pod directories")

    def get_plugin_dir(self, plugin: str) -> Path:
        raise _not_on_a_controller("plugin directories")

    async def get_config_map(self, namespace: str, name: str) -> ConfigMap | None:
        raise _not_on_a_controller("ConfigMaps")

    async def get_secret(self, namespace: str, name: str) -> Secret | None:
        raise _not_on_a_controller("Secrets")

    async def get_token(self, pod: Pod, audience: str, seconds: int) -> AccountToken:
        raise _not_on_a_controller("tokens of service accounts")


def _given(reader: ObjectReader | None) -> ObjectReader:
    if reader is None:
        raise PluginError(
            "a plugin asked for objects of the API server, and this process reads none for plugins"
        )
    return reader


def _not_on_a_controller(what: str) -> PluginError:
    return PluginError(f"a plugin asked for {what}, which only a node agent has, not a controller")
