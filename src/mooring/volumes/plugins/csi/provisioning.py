"""Making and deleting volumes of a CSI driver: CreateVolume and DeleteVolume, as the CSI
community's provisioner.

CreateVolume is idempotent by its name, `pvc-<claim uid>`: the next try finds whatever was interrupted.
"""

from __future__ import annotations

from collections.abc import Mapping

from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.rpc import Controller
from mooring.kube.objects import (
    CSINode,
    CSIPersistentVolumeSource,
    Node,
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeSpec,
    SecretReference,
)
from mooring.kube.quantity import format_bytes
from mooring.volumes.errors import InvalidSpec, MadeOtherwise, OutcomeUnknown
from mooring.volumes.host import VolumeHost
from mooring.volumes.interfaces import Deleter, Provisioner, VolumeOptions
from mooring.volumes.matching import PROVISIONED_BY, requested
from mooring.volumes.plugins.csi.drivers import ControllerAbility, Driver, PluginAbility, cannot
from mooring.volumes.plugins.csi.source import capabilities_of_claim, persistent, read_secret
from mooring.volumes.plugins.csi.topology import node_affinity, requirement
from mooring.volumes.secrets import PREFIX, secret_reference
from mooring.volumes.spec import VolumeSpec

FS_TYPE = f"{PREFIX}fstype"
KNOWN = frozenset({"fstype", "pv/name", "pvc/name", "pvc/namespace"})
"""Parameters with our prefix that do not name Secrets."""
SECRET_NAME = "volume.kubernetes.io/provisioner-deletion-secret-name"
SECRET_NAMESPACE = "volume.kubernetes.io/provisioner-deletion-secret-namespace"
"""On a PersistentVolume: the Secret with which it is deleted, under upstream's names."""
OPERATIONS = (
    "provisioner",
    "controller-publish",
    "controller-expand",
    "node-stage",
    "node-publish",
    "node-expand",
)
"""Operations for which a class may name a Secret."""


class CSIProvisioner(Provisioner):
    """Makes the volume `options.pv_name`. `extra_metadata`: the driver is given the names of
    claim and volume."""

    def __init__(
        self, driver: Driver, host: VolumeHost, options: VolumeOptions, *, extra_metadata: bool
    ) -> None:
        self._driver = driver
        self._host = host
        self._options = options
        self._extra_metadata = extra_metadata

    async def provision(self) -> PersistentVolume:
        if not await self._driver.controller_can(ControllerAbility.CREATE_DELETE_VOLUME):
            raise cannot(self._driver, "make volumes: it lacks CREATE_DELETE_VOLUME")
        secrets = self._secrets()
        request = await self._request(secrets)
        volume = await self._made(request)
        if not volume.volume_id:
            raise OutcomeUnknown(
                f"CSI driver {self._driver.name} made volume {request.name} and gave no volume_id"
            )
        too_small = 0 < volume.capacity_bytes < request.capacity_range.required_bytes
        if too_small and not self._options.claim.deleting:  # else it is only to be deleted with its claim
            raise OutcomeUnknown(
                f"CSI driver {self._driver.name} made volume {volume.volume_id} of {volume.capacity_bytes} bytes, "
                f"{request.capacity_range.required_bytes} were asked for"
            )
        return self._persistent_volume(volume, request, secrets)

    async def _made(self, request: csi.CreateVolumeRequest) -> csi.Volume:
        """Asks the driver. Of a claim that is being deleted, what was made is only to be found, so that it
        can be deleted: wherever an earlier request has made it, for a node that is not there any more."""
        try:
            return (await self._driver.call(Controller.create_volume, request)).volume
        except MadeOtherwise:
            if not self._options.claim.deleting or not request.HasField("accessibility_requirements"):
                raise
        request.ClearField("accessibility_requirements")
        return (await self._driver.call(Controller.create_volume, request)).volume

    async def _request(self, secrets: Mapping[str, SecretReference]) -> csi.CreateVolumeRequest:
        options, claim = self._options, self._options.claim
        several = await self._driver.controller_can(ControllerAbility.SINGLE_NODE_MULTI_WRITER)
        block = claim.spec.volume_mode == "Block"
        fs_type = "" if block else options.parameters.get(FS_TYPE, "")
        flags = () if block else options.mount_options
        return csi.CreateVolumeRequest(
            name=options.pv_name,
            capacity_range=csi.CapacityRange(required_bytes=requested(claim)),
            volume_capabilities=capabilities_of_claim(claim, fs_type, flags, several_writers=several),
            parameters=self._parameters(),
            secrets=await read_secret(self._host, secrets.get("provisioner")),
            volume_content_source=await self._content(),
            accessibility_requirements=await self._topology(),
            mutable_parameters=options.attributes,
        )

    def _parameters(self) -> dict[str, str]:
        """Returns the class's parameters for the driver; those with our prefix are for the provisioner."""
        given = self._options.parameters
        secrets = {f"{operation}-secret-{part}" for operation in OPERATIONS for part in ("name", "namespace")}
        for key in given:
            if key.startswith(PREFIX) and key.removeprefix(PREFIX) not in KNOWN | secrets:
                raise InvalidSpec(
                    f"the class's parameter {key} is not known: the prefix {PREFIX} is reserved"
                )
        own = {key: value for key, value in given.items() if not key.startswith(PREFIX)}
        if self._extra_metadata:
            claim = self._options.claim
            names = {
                "pv/name": self._options.pv_name,
                "pvc/name": claim.name,
                "pvc/namespace": claim.namespace,
            }
            own |= {f"{PREFIX}{key}": value for key, value in names.items()}
        return own

    def _secrets(self) -> dict[str, SecretReference]:
        """The Secret of each operation for which the class names one."""
        claim, found = self._options.claim, dict[str, SecretReference]()
        for operation in OPERATIONS:
            values = {
                "pv.name": self._options.pv_name,
                "pvc.namespace": claim.namespace,
                "pvc.name": claim.name,
            }
            if operation != "provisioner":
                values |= {
                    f"pvc.annotations['{key}']": each for key, each in claim.metadata.annotations.items()
                }
            only_in_name = ("pvc.name", "pvc.annotations")
            reference = secret_reference(
                self._options.parameters, operation, values, only_in_name=only_in_name
            )
            if reference is not None:
                found[operation] = reference
        return found

    async def _content(self) -> csi.VolumeContentSource | None:
        content = self._options.content
        if content is None:
            return None
        if content.snapshot:
            if not await self._driver.controller_can(ControllerAbility.CREATE_DELETE_SNAPSHOT):
                raise cannot(self._driver, "restore snapshots: it lacks CREATE_DELETE_SNAPSHOT")
            source = csi.VolumeContentSource.SnapshotSource(snapshot_id=content.snapshot)
            return csi.VolumeContentSource(snapshot=source)
        if not await self._driver.controller_can(ControllerAbility.CLONE_VOLUME):
            raise cannot(self._driver, "clone volumes: it lacks CLONE_VOLUME")
        return csi.VolumeContentSource(volume=csi.VolumeContentSource.VolumeSource(volume_id=content.volume))

    async def _topology(self) -> csi.TopologyRequirement | None:
        if not await self._driver.has_service(PluginAbility.VOLUME_ACCESSIBILITY_CONSTRAINTS):
            return None
        objects = self._host.objects
        nodes = {node.name: node for node in (await objects.list(Node)).items}
        its = {each.name: each for each in (await objects.list(CSINode)).items}
        try:
            return requirement(
                self._driver.name,
                [(node, its.get(name)) for name, node in nodes.items()],
                selected=self._options.selected_node,
                allowed=self._options.allowed_topologies,
                claim_uid=self._options.claim.uid,
            )
        except InvalidSpec:
            if self._options.claim.deleting:
                return None  # the nodes have gone: what was made is only to be found
            raise

    def _persistent_volume(
        self, volume: csi.Volume, request: csi.CreateVolumeRequest, secrets: Mapping[str, SecretReference]
    ) -> PersistentVolume:
        options, claim = self._options, self._options.claim
        annotations = {PROVISIONED_BY: self._driver.name}
        if (secret := secrets.get("provisioner")) is not None:
            annotations |= {SECRET_NAME: secret.name, SECRET_NAMESPACE: secret.namespace}
        size = volume.capacity_bytes or request.capacity_range.required_bytes
        block = claim.spec.volume_mode == "Block"
        return PersistentVolume(
            metadata=ObjectMeta(name=options.pv_name, annotations=annotations),
            spec=PersistentVolumeSpec(
                capacity={"storage": format_bytes(size)},
                access_modes=claim.spec.access_modes,
                persistent_volume_reclaim_policy=options.reclaim_policy,
                storage_class_name=claim.storage_class,
                volume_attributes_class_name=claim.spec.volume_attributes_class_name,
                volume_mode=claim.spec.volume_mode,
                mount_options=() if block else options.mount_options,
                node_affinity=node_affinity(volume.accessible_topology),
                csi=CSIPersistentVolumeSource(
                    driver=self._driver.name,
                    volume_handle=volume.volume_id,
                    fs_type="" if block else options.parameters.get(FS_TYPE, ""),
                    volume_attributes=dict(volume.volume_context),
                    controller_publish_secret_ref=secrets.get("controller-publish"),
                    controller_expand_secret_ref=secrets.get("controller-expand"),
                    node_stage_secret_ref=secrets.get("node-stage"),
                    node_publish_secret_ref=secrets.get("node-publish"),
                    node_expand_secret_ref=secrets.get("node-expand"),
                ),
            ),
        )


class CSIDeleter(Deleter):
    """Destroys one volume."""

    def __init__(self, driver: Driver, host: VolumeHost, spec: VolumeSpec) -> None:
        self._driver = driver
        self._host = host
        self._spec = spec

    def get_path(self) -> str:
        return ""

    async def delete(self) -> None:
        assert self._spec.persistent_volume is not None
        annotations = self._spec.persistent_volume.metadata.annotations
        name = annotations.get(SECRET_NAME)
        secret = SecretReference(name=name, namespace=annotations.get(SECRET_NAMESPACE, "")) if name else None
        request = csi.DeleteVolumeRequest(
            volume_id=persistent(self._spec).volume_handle, secrets=await read_secret(self._host, secret)
        )
        await self._driver.call(Controller.delete_volume, request)
