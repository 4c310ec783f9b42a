"""Attaching volumes of a CSI driver: ControllerPublishVolume and ControllerUnpublishVolume.
Runs on a controller.

What a detach needs is stored on the VolumeAttachment before the attach (`notes`), under upstream's name where
upstream has one. So a detach works when the PersistentVolume, the CSINode or the Node is gone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NoReturn

from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.rpc import Controller
from mooring.kube.objects import CSINode, SecretReference
from mooring.volumes.errors import InvalidSpec, NotAsked, OutcomeUnknown
from mooring.volumes.host import VolumeHost
from mooring.volumes.interfaces import Attacher, Attachment, BulkVolumeVerifier, Detacher
from mooring.volumes.names import VOLUME_NAME, csi_volume_name, split_csi_volume_name
from mooring.volumes.plugins.csi.drivers import ControllerAbility, Driver
from mooring.volumes.plugins.csi.source import capability_of, persistent, read_secret
from mooring.volumes.spec import VolumeSpec

NODE_ID = "csi.alpha.kubernetes.io/node-id"
SECRET = "mooring.dev/detach-secret"
"""On a VolumeAttachment: "<namespace>/<name>" of the Secret that a detach needs."""
PAGE = 500
"""Entries requested in one page; a driver may return fewer."""
MOST_PAGES = 10_000
"""A list of more has no end."""


class CSIAttacher(Attacher, Detacher, BulkVolumeVerifier):
    """Attaches, detaches, verifies. `notes` are the annotations that were stored before the attach."""

    def __init__(self, driver: Driver, host: VolumeHost, notes: Mapping[str, str]) -> None:
        self._driver = driver
        self._host = host
        self._notes = notes

    async def attach(self, spec: VolumeSpec, node_name: str) -> Attachment:
        source = persistent(spec)
        if not await self._driver.controller_can(ControllerAbility.PUBLISH_UNPUBLISH_VOLUME):
            return {}  # the driver attaches nothing: the VolumeAttachment alone is the attachment
        several = await self._driver.controller_can(ControllerAbility.SINGLE_NODE_MULTI_WRITER)
        read_only = source.read_only
        if read_only and not await self._driver.controller_can(ControllerAbility.PUBLISH_READONLY):
            read_only = False  # the mount is read-only
        request = csi.ControllerPublishVolumeRequest(
            volume_id=source.volume_handle,
            node_id=self._notes.get(NODE_ID) or await self.node_id(node_name),
            volume_capability=capability_of(spec, several_writers=several),
            readonly=read_only,
            secrets=await read_secret(self._host, source.controller_publish_secret_ref),
            volume_context=source.volume_attributes,
        )
        return dict((await self._driver.call(Controller.controller_publish_volume, request)).publish_context)

    async def detach(self, volume_name: str, node_name: str) -> None:
        if not await self._driver.controller_can(ControllerAbility.PUBLISH_UNPUBLISH_VOLUME):
            return
        request = csi.ControllerUnpublishVolumeRequest(
            volume_id=split_csi_volume_name(volume_name)[1],
            node_id=self._notes.get(NODE_ID) or await self.node_id(node_name),
            secrets=await read_secret(self._host, _secret(self._notes)),
        )
        await self._driver.call(Controller.controller_unpublish_volume, request)

    async def volumes_are_attached(
        self, specs: Sequence[VolumeSpec], node_name: str
    ) -> Mapping[VolumeSpec, bool]:
        return (await self.bulk_verify_volumes({node_name: specs}))[node_name]

    async def bulk_verify_volumes(
        self, volumes_by_node: Mapping[str, Sequence[VolumeSpec]]
    ) -> Mapping[str, Mapping[VolumeSpec, bool]]:
        """Returns what the driver lists as published. Everything counts as attached for a driver that cannot
        list, and on a node whose name for the driver is not known."""
        if not await self._tells_nodes():
            return {node: dict.fromkeys(specs, True) for node, specs in volumes_by_node.items()}
        published = await self._published()
        found: dict[str, Mapping[VolumeSpec, bool]] = {}
        for node, specs in volumes_by_node.items():
            try:
                node_id = await self.node_id(node)
            except NotAsked:
                found[node] = dict.fromkeys(specs, True)
                continue
            # An unlisted volume may have been missed because pages shifted while they were read. So a volume
            # counts as detached only if it is listed on other nodes.
            found[node] = {
                spec: node_id in published.get(persistent(spec).volume_handle, (node_id,)) for spec in specs
            }
        return found

    async def _tells_nodes(self) -> bool:
        abilities = (ControllerAbility.LIST_VOLUMES, ControllerAbility.LIST_VOLUMES_PUBLISHED_NODES)
        return all([await self._driver.controller_can(ability) for ability in abilities])

    async def _published(self) -> dict[str, tuple[str, ...]]:
        """Returns the nodes of each volume, by handle. Raises OutcomeUnknown for a list without an end: other
        drivers are to be asked, too."""
        found: dict[str, tuple[str, ...]] = {}
        token, given = "", set[str]()
        while token not in given and len(given) < MOST_PAGES:
            given.add(token)
            request = csi.ListVolumesRequest(max_entries=PAGE, starting_token=token)
            page = await self._driver.call(Controller.list_volumes, request)
            found |= {
                entry.volume.volume_id: tuple(entry.status.published_node_ids) for entry in page.entries
            }
            token = page.next_token
            if not token:
                return found
        raise OutcomeUnknown(
            f"CSI driver {self._driver.name} does not end its list of volumes: page {len(given)} names {token!r} as "
            "the next one"
        )

    async def node_id(self, node_name: str) -> str:
        """Returns the driver's own ID of the node. Raises NotAsked if the driver has not
        registered it yet."""
        found = await self._host.objects.find(CSINode, node_name)
        for each in found.spec.drivers if found is not None else ():
            if each.name == self._driver.name:
                return each.node_id
        raise NotAsked(
            f"CSINode {node_name} does not list driver {self._driver.name}: its node service has not registered there"
        )

    # --- on a node: not here

    def get_device_mount_path(self, spec: VolumeSpec) -> NoReturn:
        raise not_on_a_controller()

    async def wait_for_attach(self, spec: VolumeSpec, attachment: Attachment, timeout_s: float) -> NoReturn:
        raise not_on_a_controller()

    async def mount_device(self, spec: VolumeSpec, device_path: str, device_mount_path: str) -> NoReturn:
        raise not_on_a_controller()

    async def unmount_device(self, device_mount_path: str) -> NoReturn:
        raise not_on_a_controller()


def not_on_a_controller() -> InvalidSpec:
    """Node agents mount; they reach a driver's node service by themselves."""
    return InvalidSpec("volumes are mounted by node agents, not by controllers")


def notes_of(spec: VolumeSpec) -> dict[str, str]:
    """What a detach will need of the volume."""
    source = persistent(spec)
    noted = {VOLUME_NAME: csi_volume_name(source.driver, source.volume_handle)}
    secret = source.controller_publish_secret_ref
    return noted | ({SECRET: f"{secret.namespace}/{secret.name}"} if secret else {})


def _secret(notes: Mapping[str, str]) -> SecretReference | None:
    namespace, _, name = notes.get(SECRET, "").partition("/")
    return SecretReference(name=name, namespace=namespace) if name else None
