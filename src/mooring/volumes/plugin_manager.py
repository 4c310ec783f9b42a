"""Finds, initialises and looks up volume plugins.

Guarantees: a plugin's `init` is called exactly once; a plugin that cannot be used is left out,
with the reason, and does not harm the others. It knows interfaces only, no plugin. Rules:
upstream's `VolumePluginMgr` (`pkg/volume/plugins.go`).
"""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import TypeVar, cast

import structlog

from mooring.volumes.errors import InvalidPlugin, MultiplePluginsMatched, NoPluginMatched
from mooring.volumes.host import VolumeHost
from mooring.volumes.interfaces import (
    AttachableVolumePlugin,
    BlockVolumePlugin,
    DeletableVolumePlugin,
    DeviceMountableVolumePlugin,
    ExpandableVolumePlugin,
    NodeExpandableVolumePlugin,
    PersistentVolumePlugin,
    ProvisionableVolumePlugin,
    RecyclableVolumePlugin,
    SnapshottableVolumePlugin,
    VolumePlugin,
)
from mooring.volumes.names import (
    ATTACHER,
    ATTACHER_FINALIZER,
    CSI_PLUGIN,
    attachable_volume_name,
    pod_volume_name,
)
from mooring.volumes.spec import VolumeSpec

ENTRY_POINTS = "mooring.volume_plugins"
RESERVED = ("kubernetes.io", "mooring.dev")

_log = structlog.get_logger(__name__)
_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_Kind = TypeVar("_Kind", bound=VolumePlugin)


def qualified_name_problem(name: str) -> str | None:
    """Returns why `name` is not a plugin name, or None if it is one: a DNS subdomain, one
    slash, a Kubernetes name."""
    prefix, slash, rest = name.partition("/")
    if not slash or "/" in rest:
        return "a plugin's name has exactly one slash, as in example.com/volume"
    if len(prefix) > 253 or not _PREFIX.fullmatch(prefix):
        return f"{prefix!r} is not a DNS subdomain: lower-case letters, digits, '-' and '.', at most 253 characters"
    if len(rest) > 63 or not _NAME.fullmatch(rest):
        return f"{rest!r} is not a name: letters, digits, '-', '_' and '.', at most 63 characters"
    return None


def _reserved(name: str, plugin: VolumePlugin) -> str | None:
    """kubernetes.io and mooring.dev are for the plugins that come with Mooring."""
    namespace = name.partition("/")[0]
    if namespace in RESERVED and not type(plugin).__module__.startswith("mooring."):
        return f"the namespace {namespace} is reserved for the plugins that come with Mooring: take a domain of yours"
    return None


class PluginManager:
    """The plugins of one process. `errors` says which were left out and why (also logged)."""

    def __init__(
        self, plugins: Iterable[VolumePlugin], host: VolumeHost, not_loaded: Iterable[InvalidPlugin] = ()
    ) -> None:
        self._plugins: dict[str, VolumePlugin] = {}
        self._drivers: dict[str, VolumePlugin] = {}  # CSI drivers, behind one of the plugins
        self.errors: list[InvalidPlugin] = []
        for error in not_loaded:
            self._leave_out(error)
        for plugin in plugins:
            self._register(plugin, host)

    @property
    def plugins(self) -> tuple[VolumePlugin, ...]:
        """All, with the drivers behind them."""
        return *self._all().values(), *self._drivers.values()

    def find_plugin_by_spec(self, spec: VolumeSpec) -> VolumePlugin:
        """The one plugin that supports `spec`. Raises NoPluginMatched, MultiplePluginsMatched."""
        matched = {name: plugin for name, plugin in self._all().items() if plugin.can_support(spec)}
        if not matched:
            missing = [word for plugin in self._plugins.values() if (word := plugin.what_is_missing(spec))]
            why = "".join(f": {word}" for word in missing)
            raise NoPluginMatched(f"no volume plugin matched volume {spec.name}{why}{self._left_out()}")
        if len(matched) > 1:
            raise MultiplePluginsMatched(spec.name, sorted(matched))
        return next(iter(matched.values()))

    def find_plugin_by_name(self, name: str) -> VolumePlugin:
        """Raises NoPluginMatched."""
        found = self._all().get(name) or self._drivers.get(name)
        if found is None:
            raise NoPluginMatched(f"no volume plugin matched name {name!r}{self._left_out()}")
        return found

    def find_attachable_plugin_by_spec(self, spec: VolumeSpec) -> AttachableVolumePlugin | None:
        """The plugin if this volume is to be attached, else None. Raises as `find_plugin_by_spec`."""
        plugin = self.find_plugin_by_spec(spec)
        return plugin if isinstance(plugin, AttachableVolumePlugin) and plugin.can_attach(spec) else None

    def find_attachable_plugin_by_name(self, name: str) -> AttachableVolumePlugin | None:
        plugin = self.find_plugin_by_name(name)
        return plugin if isinstance(plugin, AttachableVolumePlugin) else None

    def find_device_mountable_plugin_by_spec(self, spec: VolumeSpec) -> DeviceMountableVolumePlugin | None:
        """The plugin if this volume is mounted once for a node, else None. Raises as
        `find_plugin_by_spec`."""
        plugin = self.find_plugin_by_spec(spec)
        return (
            plugin
            if isinstance(plugin, DeviceMountableVolumePlugin) and plugin.can_device_mount(spec)
            else None
        )

    def find_device_mountable_plugin_by_name(self, name: str) -> DeviceMountableVolumePlugin | None:
        plugin = self.find_plugin_by_name(name)
        return plugin if isinstance(plugin, DeviceMountableVolumePlugin) else None

    def find_block_plugin_by_spec(self, spec: VolumeSpec) -> BlockVolumePlugin | None:
        plugin = self.find_plugin_by_spec(spec)
        return plugin if isinstance(plugin, BlockVolumePlugin) else None

    def find_expandable_plugin_by_spec(self, spec: VolumeSpec) -> ExpandableVolumePlugin | None:
        plugin = self._maker(spec)
        return plugin if isinstance(plugin, ExpandableVolumePlugin) else None

    def find_node_expandable_plugin_by_spec(self, spec: VolumeSpec) -> NodeExpandableVolumePlugin | None:
        plugin = self.find_plugin_by_spec(spec)
        return plugin if isinstance(plugin, NodeExpandableVolumePlugin) else None

    def find_persistent_plugin_by_spec(self, spec: VolumeSpec) -> PersistentVolumePlugin:
        return _must_be(self.find_plugin_by_spec(spec), PersistentVolumePlugin, "persistent")

    def find_recyclable_plugin_by_spec(self, spec: VolumeSpec) -> RecyclableVolumePlugin:
        return _must_be(self.find_plugin_by_spec(spec), RecyclableVolumePlugin, "recyclable")

    def find_deletable_plugin_by_spec(self, spec: VolumeSpec) -> DeletableVolumePlugin:
        return _must_be(self._maker(spec), DeletableVolumePlugin, "deletable")

    def find_deletable_plugin_by_name(self, name: str) -> DeletableVolumePlugin:
        return _must_be(self.find_plugin_by_name(name), DeletableVolumePlugin, "deletable")

    def find_provisionable_plugin_by_name(self, name: str) -> ProvisionableVolumePlugin:
        return _must_be(self.find_plugin_by_name(name), ProvisionableVolumePlugin, "provisionable")

    def find_snapshottable_plugin_by_spec(self, spec: VolumeSpec) -> SnapshottableVolumePlugin:
        return _must_be(self._maker(spec), SnapshottableVolumePlugin, "able to take snapshots")

    def find_snapshottable_plugin_by_name(self, name: str) -> SnapshottableVolumePlugin:
        return _must_be(self.find_plugin_by_name(name), SnapshottableVolumePlugin, "able to take snapshots")

    def attachers(self) -> dict[str, str]:
        """Returns the attachers' names whose VolumeAttachments this process can carry out, with the finalizer
        of each: `plugins.mooring.dev` for all plugins together, and CSI drivers by their names."""
        attach = {
            name: each for name, each in self._all().items() if isinstance(each, AttachableVolumePlugin)
        }
        ours = {ATTACHER: ATTACHER_FINALIZER} if attach.keys() - {CSI_PLUGIN} else {}
        drivers = {
            name: each for name, each in self._drivers.items() if isinstance(each, AttachableVolumePlugin)
        }
        return ours | {name: each.finalizer() for name, each in drivers.items()}

    def volume_limits(self) -> dict[str, int]:
        """Returns how many volumes of each plugin this node takes, for plugins that know a limit."""
        attachable = [each for each in self.plugins if isinstance(each, AttachableVolumePlugin)]
        return {
            each.get_plugin_name(): limit for each in attachable if (limit := each.volume_limit()) is not None
        }

    def unique_volume_name(self, spec: VolumeSpec, pod_uid: str) -> str:
        """The unique name of a pod's volume, as in `volumesInUse` and `volumesAttached`. Raises as
        `find_plugin_by_spec`, and InvalidSpec."""
        plugin = self.find_plugin_by_spec(spec)
        shared = self.find_attachable_plugin_by_spec(spec) or self.find_device_mountable_plugin_by_spec(spec)
        if shared:
            return attachable_volume_name(plugin.get_plugin_name(), plugin.get_volume_name(spec))
        return pod_volume_name(plugin.get_plugin_name(), pod_uid, spec.name)

    def _all(self) -> Mapping[str, VolumePlugin]:
        """Those that are installed, and those that they have found since."""
        found = [each for plugin in self._plugins.values() if (each := plugin.found_plugins())]
        return ChainMap(self._plugins, *map(dict, found)) if found else self._plugins

    def _maker(self, spec: VolumeSpec) -> VolumePlugin:
        """Returns the plugin or driver that makes, grows and copies the volume."""
        plugin = self.find_plugin_by_spec(spec)
        return self._drivers.get(plugin.get_driver_name(spec), plugin)

    def _register(self, plugin: VolumePlugin, host: VolumeHost) -> None:
        name = plugin.get_plugin_name()
        problem = qualified_name_problem(name) or _reserved(name, plugin)
        if problem is None and name in self._plugins:
            problem = "it was registered more than once"
        if problem is not None:
            self._leave_out(InvalidPlugin(name, problem))
            return
        try:
            plugin.init(host)
            drivers = {driver.get_plugin_name(): driver for driver in plugin.drivers()}
            for driver in drivers.values():
                driver.init(host)
        except Exception as error:
            self._leave_out(_caused_by(error, InvalidPlugin(name, f"its init failed: {error}")))
        else:
            self._plugins[name] = plugin
            self._drivers |= drivers

    def _leave_out(self, error: InvalidPlugin) -> None:
        self.errors.append(error)
        _log.error(
            "VolumePluginLeftOut", plugin=error.plugin, problem=error.problem, exc_info=error.__cause__
        )

    def _left_out(self) -> str:
        return "".join(f" ({error})" for error in self.errors)


def load_plugins(host: VolumeHost, further: Iterable[VolumePlugin] = ()) -> PluginManager:
    """All plugins that are installed: the entry points of the group `mooring.volume_plugins`, each a factory
    or a plugin instance; and `further` ones. One that cannot be loaded is among `PluginManager.errors`."""
    plugins = list(further)
    errors: list[InvalidPlugin] = []
    for entry_point in sorted(entry_points(group=ENTRY_POINTS), key=lambda entry: entry.name):
        try:
            plugins.append(_load(entry_point))
        except Exception as error:
            problem = f"{entry_point.value} cannot be loaded: {error}"
            errors.append(_caused_by(error, InvalidPlugin(entry_point.name, problem)))
    return PluginManager(plugins, host, errors)


def _load(entry_point: EntryPoint) -> VolumePlugin:
    found: object = entry_point.load()
    plugin = found if isinstance(found, VolumePlugin) else cast(Callable[[], object], found)()
    if not isinstance(plugin, VolumePlugin):
        raise TypeError(f"it gives a {type(plugin).__name__}, not a VolumePlugin")
    return plugin


def _caused_by(cause: Exception, error: InvalidPlugin) -> InvalidPlugin:
    error.__cause__ = cause
    return error


def _must_be(plugin: VolumePlugin, kind: type[_Kind], ability: str) -> _Kind:
    if not isinstance(plugin, kind):
        raise NoPluginMatched(
            f"volume plugin {plugin.get_plugin_name()} is not {ability}: choose another plugin"
        )
    return plugin
