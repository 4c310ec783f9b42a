"""One CSI driver as the controllers use it: it makes, attaches, grows, changes, copies and
deletes its volumes.

Its name among plugins is the driver's own, as StorageClasses and VolumeAttachments have it; volumes are named
by their handles. Mounting is the node agent's work (`plugin`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NoReturn

from mooring.csi.errors import Code, CsiError
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.rpc import Controller
from mooring.kube.objects import Pod
from mooring.volumes.errors import InvalidSpec, StorageRefused
from mooring.volumes.host import VolumeHost
from mooring.volumes.interfaces import (
    AttachableVolumePlugin,
    AttachCapabilities,
    DeletableVolumePlugin,
    ExpandableVolumePlugin,
    Expansion,
    ModifiableVolumePlugin,
    ProvisionableVolumePlugin,
    Snapshot,
    SnapshotOptions,
    SnapshottableVolumePlugin,
    VolumeOptions,
)
from mooring.volumes.plugins.csi.attaching import NODE_ID, CSIAttacher, not_on_a_controller, notes_of
from mooring.volumes.plugins.csi.drivers import ControllerAbility, Driver, cannot
from mooring.volumes.plugins.csi.growing import growing
from mooring.volumes.plugins.csi.provisioning import CSIDeleter, CSIProvisioner
from mooring.volumes.plugins.csi.snapshots import CSISnapshots
from mooring.volumes.plugins.csi.source import capability_of, persistent, read_secret
from mooring.volumes.spec import VolumeSpec

REQUEST_VALIDITY_S = 60.0
"""Seconds for which an unanswered ControllerPublish or ControllerUnpublish may still take effect. The
specification sets no bound; a call has a deadline of a quarter of this."""


class CSIDriverPlugin(
    AttachableVolumePlugin,
    ProvisionableVolumePlugin,
    DeletableVolumePlugin,
    ExpandableVolumePlugin,
    ModifiableVolumePlugin,
    SnapshottableVolumePlugin,
):
    """A driver that lacks an ability raises InvalidSpec when it is called."""

    _host: VolumeHost

    def __init__(self, driver: Driver, *, extra_metadata: bool = False) -> None:
        self._driver = driver
        self._extra_metadata = extra_metadata

    def init(self, host: VolumeHost) -> None:
        self._host = host

    def get_plugin_name(self) -> str:
        return self._driver.name

    def get_volume_name(self, spec: VolumeSpec) -> str:
        return persistent(spec).volume_handle

    def can_support(self, spec: VolumeSpec) -> bool:
        source = spec.persistent_volume.spec.csi if spec.persistent_volume else None
        return source is not None and source.driver == self._driver.name

    def supports_mount_option(self) -> bool:
        return True

    # --- attach

    def supports_bulk_volume_verification(self) -> bool:
        return True

    def capabilities(self, spec: VolumeSpec) -> AttachCapabilities:
        """`refuses` and `revokes` are not known here: see `mooring.volumes.attachability`."""
        return AttachCapabilities(
            refuses=True, revokes=False, multi_attach=True, request_validity_s=REQUEST_VALIDITY_S
        )

    def finalizer(self) -> str:
        return f"external-attacher/{self._driver.name.replace('.', '-')}"

    async def attach_notes(self, spec: VolumeSpec, node_name: str) -> Mapping[str, str]:
        if not await self._driver.controller_can(ControllerAbility.PUBLISH_UNPUBLISH_VOLUME):
            return {}
        return notes_of(spec) | {NODE_ID: await self.new_attacher().node_id(node_name)}

    def new_attacher(self) -> CSIAttacher:
        return CSIAttacher(self._driver, self._host, {})

    def new_detacher(self) -> CSIAttacher:
        return CSIAttacher(self._driver, self._host, {})

    def attacher_of(self, notes: Mapping[str, str]) -> CSIAttacher:
        return CSIAttacher(self._driver, self._host, notes)

    def detacher_of(self, notes: Mapping[str, str], spec: VolumeSpec | None) -> CSIAttacher:
        """A VolumeAttachment of upstream's attacher has fewer annotations: the rest comes from the volume."""
        return CSIAttacher(self._driver, self._host, (notes_of(spec) if spec else {}) | dict(notes))

    # --- make and delete

    def new_provisioner(self, options: VolumeOptions) -> CSIProvisioner:
        return CSIProvisioner(self._driver, self._host, options, extra_metadata=self._extra_metadata)

    def new_deleter(self, spec: VolumeSpec) -> CSIDeleter:
        return CSIDeleter(self._driver, self._host, spec)

    # --- grow and change

    async def expand_volume_device(self, spec: VolumeSpec, new_size: int) -> Expansion:
        if not await self._driver.controller_can(ControllerAbility.EXPAND_VOLUME):
            return Expansion(new_size, on_node=True)  # only its node service can
        source = persistent(spec)
        several = await self._driver.controller_can(ControllerAbility.SINGLE_NODE_MULTI_WRITER)
        request = csi.ControllerExpandVolumeRequest(
            volume_id=source.volume_handle,
            capacity_range=csi.CapacityRange(required_bytes=new_size),
            secrets=await read_secret(self._host, source.controller_expand_secret_ref),
            volume_capability=capability_of(spec, several_writers=several),
        )
        with growing():
            grown = await self._driver.call(Controller.controller_expand_volume, request)
        return Expansion(grown.capacity_bytes or new_size, grown.node_expansion_required)

    async def modify_volume(self, spec: VolumeSpec, attributes: Mapping[str, str]) -> None:
        if not await self._driver.controller_can(ControllerAbility.MODIFY_VOLUME):
            raise cannot(self._driver, "change volumes: it lacks MODIFY_VOLUME")
        request = csi.ControllerModifyVolumeRequest(
            volume_id=persistent(spec).volume_handle, mutable_parameters=attributes
        )
        try:
            await self._driver.call(Controller.controller_modify_volume, request)
        except StorageRefused as error:
            answer = error.__cause__
            if isinstance(answer, CsiError) and answer.code is Code.INVALID_ARGUMENT:
                raise InvalidSpec(str(error)) from answer  # KEP-3751: any other answer may change
            raise

    # --- copy

    async def create_snapshot(self, volume_name: str, name: str, options: SnapshotOptions) -> Snapshot:
        return await CSISnapshots(self._driver, self._host).create(volume_name, name, options)

    async def get_snapshot(self, handle: str, options: SnapshotOptions) -> Snapshot:
        return await CSISnapshots(self._driver, self._host).get(handle, options)

    async def delete_snapshot(self, handle: str, options: SnapshotOptions) -> None:
        await CSISnapshots(self._driver, self._host).delete(handle, options)

    # --- on a node: not here

    def new_mounter(self, spec: VolumeSpec, pod: Pod) -> NoReturn:
        raise not_on_a_controller()

    def new_unmounter(self, spec_name: str, pod_uid: str) -> NoReturn:
        raise not_on_a_controller()

    async def get_device_mount_refs(self, device_mount_path: str) -> Sequence[str]:
        raise not_on_a_controller()

    async def construct_volume_spec(self, volume_name: str, mount_path: str) -> VolumeSpec:
        raise not_on_a_controller()
