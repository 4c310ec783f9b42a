"""PersistentVolumes and their claims (core group)."""

from __future__ import annotations

from typing import Any

from mooring.kube.objects.meta import Condition, LabelSelector, Object, ObjectReference, Resource, Struct
from mooring.kube.objects.nodes import NodeSelector
from mooring.kube.objects.volumes import (
    AWSElasticBlockStoreVolumeSource,
    AzureDiskVolumeSource,
    AzureFileVolumeSource,
    CephFSVolumeSource,
    CinderVolumeSource,
    CSIPersistentVolumeSource,
    FCVolumeSource,
    FlexVolumeSource,
    FlockerVolumeSource,
    GCEPersistentDiskVolumeSource,
    GlusterfsVolumeSource,
    HostPathVolumeSource,
    ISCSIVolumeSource,
    LocalVolumeSource,
    NFSVolumeSource,
    PhotonPersistentDiskVolumeSource,
    PortworxVolumeSource,
    QuobyteVolumeSource,
    RBDVolumeSource,
    VsphereVirtualDiskVolumeSource,
)


class VolumeNodeAffinity(Struct, frozen=True):
    required: NodeSelector | None = None


class PersistentVolumeSpec(Struct, frozen=True):
    capacity: dict[str, str | int] = {}
    access_modes: tuple[str, ...] = ()
    claim_ref: ObjectReference | None = None
    persistent_volume_reclaim_policy: str = "Retain"
    storage_class_name: str = ""
    volume_mode: str = "Filesystem"
    mount_options: tuple[str, ...] = ()
    node_affinity: VolumeNodeAffinity | None = None
    volume_attributes_class_name: str | None = None
    flex_volume: FlexVolumeSource | None = None
    csi: CSIPersistentVolumeSource | None = None
    host_path: HostPathVolumeSource | None = None
    local: LocalVolumeSource | None = None
    aws_elastic_block_store: AWSElasticBlockStoreVolumeSource | None = None
    gce_persistent_disk: GCEPersistentDiskVolumeSource | None = None
    azure_disk: AzureDiskVolumeSource | None = None
    azure_file: AzureFileVolumeSource | None = None
    cinder: CinderVolumeSource | None = None
    vsphere_volume: VsphereVirtualDiskVolumeSource | None = None
    portworx_volume: PortworxVolumeSource | None = None
    iscsi: ISCSIVolumeSource | None = None
    fc: FCVolumeSource | None = None
    nfs: NFSVolumeSource | None = None
    glusterfs: GlusterfsVolumeSource | None = None
    rbd: RBDVolumeSource | None = None
    cephfs: CephFSVolumeSource | None = None
    quobyte: QuobyteVolumeSource | None = None
    flocker: FlockerVolumeSource | None = None
    photon_persistent_disk: PhotonPersistentDiskVolumeSource | None = None


class PersistentVolumeStatus(Struct, frozen=True):
    phase: str = ""
    reason: str = ""
    message: str = ""


class PersistentVolume(Object, frozen=True):
    RESOURCE = Resource("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False)
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()


class VolumeResourceRequirements(Struct, frozen=True):
    requests: dict[str, str | int] = {}
    limits: dict[str, str | int] = {}


class PersistentVolumeClaimSpec(Struct, frozen=True):
    access_modes: tuple[str, ...] = ()
    resources: VolumeResourceRequirements = VolumeResourceRequirements()
    storage_class_name: str | None = None
    volume_mode: str = "Filesystem"
    volume_name: str = ""
    selector: LabelSelector | None = None
    data_source: dict[str, Any] | None = None
    data_source_ref: dict[str, Any] | None = None
    volume_attributes_class_name: str | None = None


class ModifyVolumeStatus(Struct, frozen=True):
    target_volume_attributes_class_name: str = ""
    status: str = ""


class PersistentVolumeClaimStatus(Struct, frozen=True):
    phase: str = ""
    access_modes: tuple[str, ...] = ()
    capacity: dict[str, str | int] = {}
    allocated_resources: dict[str, str | int] = {}
    allocated_resource_statuses: dict[str, str] = {}
    conditions: tuple[Condition, ...] = ()
    current_volume_attributes_class_name: str | None = None
    modify_volume_status: ModifyVolumeStatus | None = None


class PersistentVolumeClaim(Object, frozen=True):
    RESOURCE = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()

    @property
    def storage_class(self) -> str:
        """The name of its class; empty where it has none, or leaves that to the cluster."""
        return self.spec.storage_class_name or ""
