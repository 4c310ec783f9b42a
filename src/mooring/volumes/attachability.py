"""Which volumes are attached, under which unique name, and what their storage guarantees:
one rule for every caller.

A plugin says itself whether its volume is attached, and what the storage guarantees. A CSI volume
is attached unless its CSIDriver says `attachRequired: false`. Of a CSI driver's storage the API
says nothing: it counts as refusing a second attach (then the driver returns an error), and as
revoking only where that is known (`revocation`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import lru_cache

from mooring.kube.objects import CSIDriver
from mooring.volumes.attachment_lock import needs_lock
from mooring.volumes.errors import VolumeError
from mooring.volumes.exclusivity import is_exclusive, is_multi_attach_allowed
from mooring.volumes.interfaces import AttachCapabilities
from mooring.volumes.migration import Migrated, migrated_spec
from mooring.volumes.names import CSI_PLUGIN, attachable_volume_name, csi_volume_name, split_csi_volume_name
from mooring.volumes.names import split_volume_name as split
from mooring.volumes.plugin_manager import PluginManager
from mooring.volumes.revocation import driver_refuses, driver_revokes
from mooring.volumes.spec import VolumeSpec

GetDriver = Callable[[str], CSIDriver | None]


def csi_name(spec: VolumeSpec) -> str | None:
    """Returns the unique name of a CSI volume, whether it needs attaching or not; None for any other volume.
    A volume of a former in-tree plugin that CSI has replaced (`migration`) is one, too."""
    source = spec.persistent_volume.spec.csi if spec.persistent_volume is not None else None
    found = Migrated(source.driver, source.volume_handle) if source is not None else migrated_spec(spec)
    if found is None or not (found.driver and found.handle):
        return None
    return attachable_volume_name(CSI_PLUGIN, csi_volume_name(found.driver, found.handle))


@lru_cache(maxsize=65536)
def driver_of(unique_name: str) -> str:
    """Returns the CSI driver or the plugin of the volume; "" if it is no unique volume name."""
    try:
        plugin, name = split(unique_name)
        return split_csi_volume_name(name)[0] if plugin == CSI_PLUGIN else plugin
    except ValueError:
        return ""


class Attachability:
    """Asks plugins and CSIDrivers. `revokes` overrides what is known of a driver or plugin. `left_out` are
    drivers and plugins whose volumes another controller attaches."""

    def __init__(
        self,
        plugins: PluginManager,
        get_driver: GetDriver,
        *,
        revokes: Mapping[str, bool] | None = None,
        left_out: Collection[str] = (),
    ) -> None:
        self._plugins = plugins
        self._get_driver = get_driver
        self._revokes = revokes or {}
        self._left_out = frozenset(left_out)

    def name(self, spec: VolumeSpec) -> str | None:
        """Returns the unique name of a volume that can be attached at all, else None.
        Depends on the spec alone."""
        try:
            if (found := csi_name(spec)) is not None:
                return found if self.answers_for(found) else None
            plugin = self._plugins.find_attachable_plugin_by_spec(spec)
            found = (
                attachable_volume_name(plugin.get_plugin_name(), plugin.get_volume_name(spec))
                if plugin
                else None
            )
            return found if found and self.answers_for(found) else None
        except (VolumeError, ValueError):
            return None  # no plugin for it, or malformed: the node reports that in the pod's events

    def attached_name(self, spec: VolumeSpec) -> str | None:
        """Returns the unique name if the volume needs attaching as things are now, else None."""
        name = self.name(spec)
        return name if name and self.attach_required(name) else None

    def attach_required(self, unique_name: str) -> bool:
        """Whether volumes of this driver need attaching. One without a CSIDriver does, as in upstream."""
        driver = (
            self._get_driver(driver_of(unique_name)) if unique_name.startswith(f"{CSI_PLUGIN}/") else None
        )
        return driver is None or driver.spec.attach_required

    def answers_for(self, unique_name: str) -> bool:
        """Whether a name in a Node's lists is one of ours: a CSI volume, or one of a plugin
        of this process."""
        driver = driver_of(unique_name)
        if not driver or driver in self._left_out:
            return False
        if unique_name.startswith(f"{CSI_PLUGIN}/"):
            return True
        try:
            return self._plugins.find_attachable_plugin_by_name(driver) is not None
        except VolumeError:
            return False

    def several_nodes(self, spec: VolumeSpec) -> bool:
        """Whether several nodes may have the volume at once."""
        return not is_exclusive(spec, self.capabilities(spec))

    def needs_lock(self, spec: VolumeSpec) -> bool:
        """Whether only a lock keeps a second node from the volume."""
        capabilities = self.capabilities(spec)
        return needs_lock(capabilities, exclusive=is_exclusive(spec, capabilities))

    def capabilities(self, spec: VolumeSpec) -> AttachCapabilities:
        """Returns what is known of the guarantees of an attachable volume's storage."""
        name = csi_name(spec)
        if name is not None:
            refuses = driver_refuses(self._get_driver(driver_of(name)))
            return AttachCapabilities(refuses=refuses, revokes=self.revokes(name), multi_attach=True)
        plugin = self._plugins.find_attachable_plugin_by_spec(spec)
        if plugin is None:
            allowed = is_multi_attach_allowed(spec)
            return AttachCapabilities(refuses=False, revokes=False, multi_attach=allowed)
        found = plugin.capabilities(spec)
        revokes = self._revokes.get(plugin.get_plugin_name(), found.revokes)
        return found if revokes == found.revokes else replace(found, revokes=revokes)

    def revokes(self, unique_name: str, spec: VolumeSpec | None = None) -> bool:
        """Whether a detach revokes the node's access for good. False for a plugin's volume that is not
        defined any more, unless overridden."""
        driver = driver_of(unique_name)
        if unique_name.startswith(f"{CSI_PLUGIN}/"):
            return driver_revokes(driver, self._get_driver(driver), self._revokes)
        return self.capabilities(spec).revokes if spec is not None else self._revokes.get(driver, False)
