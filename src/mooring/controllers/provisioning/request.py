"""What a storage is asked for: the options of a volume, read from its claim and its class.

It must not know what was asked before, nor what becomes of an answer.
"""

from __future__ import annotations

from collections.abc import Mapping

from mooring.controllers.provisioning.content_source import content_of
from mooring.controllers.provisioning.decide import volume_name
from mooring.controllers.provisioning.originals import Originals
from mooring.kube.client import Client
from mooring.kube.informer import Informer
from mooring.kube.objects import (
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttributesClass,
)
from mooring.volumes.errors import InvalidSpec
from mooring.volumes.interfaces import (
    ContentSource,
    ModifiableVolumePlugin,
    ProvisionableVolumePlugin,
    VolumeOptions,
)
from mooring.volumes.migration import class_to_csi, driver_of
from mooring.volumes.plugin_manager import PluginManager


class Requests:
    """Reads live, and from the provisioner's caches."""

    def __init__(
        self,
        client: Client,
        plugins: PluginManager,
        claims: Informer[PersistentVolumeClaim],
        volumes: Informer[PersistentVolume],
        originals: Originals,
    ) -> None:
        self._client = client
        self._plugins = plugins
        self._claims = claims
        self._volumes = volumes
        self._originals = originals

    async def prepare(
        self, claim: PersistentVolumeClaim, written: StorageClass, *, first: bool
    ) -> tuple[ProvisionableVolumePlugin, VolumeOptions]:
        """Who is asked, and for what, but for the node. `first`: no earlier try can have made anything.
        Raises InvalidSpec, PluginError."""
        driver, storage_class = driver_of(written.provisioner), class_to_csi(written)
        plugin = self._plugins.find_provisionable_plugin_by_name(driver)
        if storage_class.mount_options and not plugin.supports_mount_option():
            raise InvalidSpec(f"plugin {driver} has no mount options: remove them from the class")
        content, attributes = await self._content_and_attributes(claim, plugin, first=first)
        return plugin, VolumeOptions(
            pv_name=volume_name(claim),
            claim=claim,
            reclaim_policy=storage_class.reclaim_policy,
            mount_options=storage_class.mount_options,
            parameters=storage_class.parameters,
            content=content,
            allowed_topologies=storage_class.allowed_topologies,
            attributes=attributes,
        )

    async def _content_and_attributes(
        self, claim: PersistentVolumeClaim, plugin: ProvisionableVolumePlugin, *, first: bool
    ) -> tuple[ContentSource | None, Mapping[str, str]]:
        """What a volume is to hold, and to be like. Of a claim that is being deleted, a volume that may be
        there is only to be found, so that it can be deleted: by its name alone, if its snapshot or its
        VolumeAttributesClass has gone with the claim."""
        try:
            content = await content_of(
                self._client, claim, self._claims, self._volumes, plugin, self._originals
            )
            return content, await self._attributes(claim, plugin)
        except InvalidSpec:
            if first or not claim.deleting:
                raise
            return None, {}

    async def _attributes(
        self, claim: PersistentVolumeClaim, plugin: ProvisionableVolumePlugin
    ) -> Mapping[str, str]:
        name, driver = claim.spec.volume_attributes_class_name, plugin.get_plugin_name()
        if not name:
            return {}
        if not isinstance(plugin, ModifiableVolumePlugin):
            raise InvalidSpec(
                f"claim {claim.key} asks for VolumeAttributesClass {name}, and volumes of {driver} have no attributes"
            )
        of_class = await self._client.find(VolumeAttributesClass, name)
        if of_class is None or of_class.driver_name != driver:
            what = (
                "does not exist"
                if of_class is None
                else f"is of driver {of_class.driver_name}, not of {driver}"
            )
            raise InvalidSpec(f"VolumeAttributesClass {name} of claim {claim.key} {what}")
        return of_class.parameters
