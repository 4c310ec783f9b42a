"""Volumes inside pods (core group): their sources and where containers mount them."""

from __future__ import annotations

from typing import Any

import msgspec

from mooring.kube.objects.meta import LocalObjectReference, Struct


class KeyToPath(Struct, frozen=True):
    key: str = ""
    path: str = ""
    mode: int | None = None


class EmptyDirVolumeSource(Struct, frozen=True):
    medium: str = ""
    size_limit: str | int | None = None


class ConfigMapVolumeSource(Struct, frozen=True):
    name: str = ""
    items: tuple[KeyToPath, ...] = ()
    default_mode: int | None = None
    optional: bool = False


class SecretVolumeSource(Struct, frozen=True):
    secret_name: str = ""
    items: tuple[KeyToPath, ...] = ()
    default_mode: int | None = None
    optional: bool = False


class HostPathVolumeSource(Struct, frozen=True):
    path: str = ""
    type: str | None = None


class PersistentVolumeClaimVolumeSource(Struct, frozen=True):
    claim_name: str = ""
    read_only: bool = False


class SecretReference(Struct, frozen=True):
    name: str = ""
    namespace: str = ""


class FlexVolumeSource(Struct, frozen=True):
    driver: str = ""
    fs_type: str = ""
    read_only: bool = False
    secret_ref: SecretReference | None = None
    options: dict[str, str] = {}


class CSIPersistentVolumeSource(Struct, frozen=True):
    driver: str = ""
    volume_handle: str = ""
    fs_type: str = ""
    read_only: bool = False
    volume_attributes: dict[str, str] = {}
    controller_publish_secret_ref: SecretReference | None = None
    controller_expand_secret_ref: SecretReference | None = None
    node_stage_secret_ref: SecretReference | None = None
    node_publish_secret_ref: SecretReference | None = None
    node_expand_secret_ref: SecretReference | None = None


class CSIVolumeSource(Struct, frozen=True):
    """A volume of a CSI driver that lives as long as its pod."""

    driver: str = ""
    fs_type: str | None = None
    read_only: bool = False
    volume_attributes: dict[str, str] = {}
    node_publish_secret_ref: LocalObjectReference | None = None


class AWSElasticBlockStoreVolumeSource(Struct, frozen=True):
    volume_id: str = msgspec.field(default="", name="volumeID")
    fs_type: str = ""
    partition: int = 0
    read_only: bool = False


class GCEPersistentDiskVolumeSource(Struct, frozen=True):
    pd_name: str = ""
    fs_type: str = ""
    partition: int = 0
    read_only: bool = False


class NFSVolumeSource(Struct, frozen=True):
    server: str = ""
    path: str = ""
    read_only: bool = False


class GlusterfsVolumeSource(Struct, frozen=True):
    """In a pod's volume there is no `endpoints_namespace`: it is the pod's."""

    endpoints: str = ""
    path: str = ""
    read_only: bool = False
    endpoints_namespace: str | None = None


class ISCSIVolumeSource(Struct, frozen=True):
    """A LUN of an iSCSI target. In a pod, `secret_ref` has no namespace: it is the pod's."""

    target_portal: str = ""
    portals: tuple[str, ...] = ()
    iqn: str = ""
    lun: int = 0
    iscsi_interface: str = ""
    initiator_name: str | None = None
    fs_type: str = ""
    read_only: bool = False
    chap_auth_discovery: bool = False
    chap_auth_session: bool = False
    secret_ref: SecretReference | None = None


class FCVolumeSource(Struct, frozen=True):
    """A disk of a Fibre Channel storage: a LUN of its ports, or a disk by what it says of itself."""

    target_wwns: tuple[str, ...] = msgspec.field(default=(), name="targetWWNs")
    lun: int | None = None
    wwids: tuple[str, ...] = ()
    fs_type: str = ""
    read_only: bool = False


class GitRepoVolumeSource(Struct, frozen=True):
    repository: str = ""
    revision: str = ""
    directory: str = ""


class RBDVolumeSource(Struct, frozen=True):
    """An image of a Ceph cluster. In a pod, `secret_ref` has no namespace: it is the pod's."""

    monitors: tuple[str, ...] = ()
    image: str = ""
    pool: str = "rbd"
    user: str = "admin"
    keyring: str = "/etc/ceph/keyring"
    secret_ref: SecretReference | None = None
    fs_type: str = ""
    read_only: bool = False


class CephFSVolumeSource(Struct, frozen=True):
    """A directory of a Ceph file system. In a pod, `secret_ref` has no namespace: it is the pod's."""

    monitors: tuple[str, ...] = ()
    path: str = ""
    user: str = ""
    secret_file: str = ""
    secret_ref: SecretReference | None = None
    read_only: bool = False


class QuobyteVolumeSource(Struct, frozen=True):
    """A volume of Quobyte; `registry` is `HOST:PORT`, several with commas between them."""

    registry: str = ""
    volume: str = ""
    read_only: bool = False
    user: str = ""
    group: str = ""
    tenant: str = ""


class FlockerVolumeSource(Struct, frozen=True):
    """A dataset of Flocker, by one of its two names."""

    dataset_name: str = ""
    dataset_uuid: str = msgspec.field(default="", name="datasetUUID")


class PhotonPersistentDiskVolumeSource(Struct, frozen=True):
    pd_id: str = msgspec.field(default="", name="pdID")
    fs_type: str = ""


class AzureDiskVolumeSource(Struct, frozen=True):
    disk_name: str = ""
    disk_uri: str = msgspec.field(default="", name="diskURI")
    caching_mode: str | None = None
    fs_type: str | None = None
    read_only: bool | None = None
    kind: str | None = None


class AzureFileVolumeSource(Struct, frozen=True):
    """In a pod's volume there is no `secret_namespace`: it is the pod's."""

    secret_name: str = ""
    share_name: str = ""
    read_only: bool = False
    secret_namespace: str | None = None


class CinderVolumeSource(Struct, frozen=True):
    volume_id: str = msgspec.field(default="", name="volumeID")
    fs_type: str = ""
    read_only: bool = False


class VsphereVirtualDiskVolumeSource(Struct, frozen=True):
    volume_path: str = ""
    fs_type: str = ""
    storage_policy_name: str = ""
    storage_policy_id: str = msgspec.field(default="", name="storagePolicyID")


class PortworxVolumeSource(Struct, frozen=True):
    volume_id: str = msgspec.field(default="", name="volumeID")
    fs_type: str = ""
    read_only: bool = False


class LocalVolumeSource(Struct, frozen=True):
    path: str = ""
    fs_type: str | None = None


class EphemeralVolumeSource(Struct, frozen=True):
    volume_claim_template: dict[str, Any] | None = None


class ObjectFieldSelector(Struct, frozen=True):
    field_path: str = ""


class ResourceFieldSelector(Struct, frozen=True):
    container_name: str = ""
    resource: str = ""
    divisor: str | int | None = None


class DownwardAPIVolumeFile(Struct, frozen=True):
    path: str = ""
    field_ref: ObjectFieldSelector | None = None
    resource_field_ref: ResourceFieldSelector | None = None
    mode: int | None = None


class DownwardAPIVolumeSource(Struct, frozen=True):
    items: tuple[DownwardAPIVolumeFile, ...] = ()
    default_mode: int | None = None


class ConfigMapProjection(Struct, frozen=True):
    name: str = ""
    items: tuple[KeyToPath, ...] = ()
    optional: bool = False


class SecretProjection(Struct, frozen=True):
    name: str = ""
    items: tuple[KeyToPath, ...] = ()
    optional: bool = False


class DownwardAPIProjection(Struct, frozen=True):
    items: tuple[DownwardAPIVolumeFile, ...] = ()


class ServiceAccountTokenProjection(Struct, frozen=True):
    path: str = ""
    audience: str = ""
    expiration_seconds: int = 3600


class VolumeProjection(Struct, frozen=True):
    """Exactly one is set."""

    config_map: ConfigMapProjection | None = None
    secret: SecretProjection | None = None
    downward_api: DownwardAPIProjection | None = msgspec.field(default=None, name="downwardAPI")
    service_account_token: ServiceAccountTokenProjection | None = None
    cluster_trust_bundle: dict[str, Any] | None = None
    pod_certificate: dict[str, Any] | None = None


class ProjectedVolumeSource(Struct, frozen=True):
    sources: tuple[VolumeProjection, ...] = ()
    default_mode: int | None = None


class Volume(Struct, frozen=True):
    """One entry of a pod's `spec.volumes`."""

    name: str = ""
    empty_dir: EmptyDirVolumeSource | None = None
    config_map: ConfigMapVolumeSource | None = None
    secret: SecretVolumeSource | None = None
    host_path: HostPathVolumeSource | None = None
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    flex_volume: FlexVolumeSource | None = None
    csi: CSIVolumeSource | None = None
    aws_elastic_block_store: AWSElasticBlockStoreVolumeSource | None = None
    gce_persistent_disk: GCEPersistentDiskVolumeSource | None = None
    azure_disk: AzureDiskVolumeSource | None = None
    azure_file: AzureFileVolumeSource | None = None
    cinder: CinderVolumeSource | None = None
    vsphere_volume: VsphereVirtualDiskVolumeSource | None = None
    portworx_volume: PortworxVolumeSource | None = None
    glusterfs: GlusterfsVolumeSource | None = None
    iscsi: ISCSIVolumeSource | None = None
    fc: FCVolumeSource | None = None
    git_repo: GitRepoVolumeSource | None = None
    nfs: NFSVolumeSource | None = None
    rbd: RBDVolumeSource | None = None
    cephfs: CephFSVolumeSource | None = None
    quobyte: QuobyteVolumeSource | None = None
    flocker: FlockerVolumeSource | None = None
    photon_persistent_disk: PhotonPersistentDiskVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None
    projected: ProjectedVolumeSource | None = None
    downward_api: DownwardAPIVolumeSource | None = msgspec.field(default=None, name="downwardAPI")


class VolumeMount(Struct, frozen=True):
    name: str = ""
    mount_path: str = ""
    read_only: bool = False
    sub_path: str = ""
    sub_path_expr: str = ""
    mount_propagation: str = ""


class VolumeDevice(Struct, frozen=True):
    name: str = ""
    device_path: str = ""
