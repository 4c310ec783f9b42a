"""The kinds of former in-tree volumes, each with what it is in CSI. Data and small rules.

Source of the rules: the answers of csi-translation-lib (`tests/volumes/migration`). An inline vSphere volume
with a storage policy ends the program that asks it; here it is what it is in a PersistentVolume.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from mooring.kube.objects import (
    AWSElasticBlockStoreVolumeSource,
    CinderVolumeSource,
    CSIPersistentVolumeSource,
    GCEPersistentDiskVolumeSource,
    PersistentVolume,
    PortworxVolumeSource,
    SecretReference,
    VsphereVirtualDiskVolumeSource,
)
from mooring.volumes.errors import InvalidSpec
from mooring.volumes.migration.azure import AZURE_DISK, AzureDisk, AzureFile
from mooring.volumes.migration.kind import InTreeKind, one_region, partition
from mooring.volumes.topology import SEVERAL

AWS = "ebs.csi.aws.com"
GCE = "pd.csi.storage.gke.io"
CINDER = "cinder.csi.openstack.org"
VSPHERE = "csi.vsphere.vmware.com"
PORTWORX = "pxd.portworx.com"

ONE_NODE_INLINE = frozenset({AZURE_DISK, CINDER})
"""Drivers of volumes that, if a pod defines them itself, one node may have at a time
(upstream: IsMultiAttachAllowed)."""
ZONES = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")
UNSPECIFIED = "UNSPECIFIED"

_AWS_ID = re.compile(r"aws://[^/?#%\s]*/+(vol-[^/?#%\s]*)/*")
_FS_TYPE = "csi.storage.k8s.io/fstype"
_PORTWORX_SECRET = ("openstorage.io/auth-secret-name", "openstorage.io/auth-secret-namespace")
_PORTWORX_CALLS = (
    "provisioner",
    "controller-publish",
    "node-stage",
    "node-publish",
    "controller-expand",
    "node-expand",
)
_VSPHERE_PARAMETERS = {
    "fstype": _FS_TYPE,
    "storagepolicyname": "storagepolicyname",
    **{
        name: f"{name}-migrationparam"
        for name in (
            "datastore",
            "diskformat",
            "hostfailurestotolerate",
            "forceprovisioning",
            "cachereservation",
            "diskstripes",
            "objectspacereservation",
            "iopslimit",
        )
    },
}


class Migrated(NamedTuple):
    """The driver and handle of a volume."""

    driver: str
    handle: str


def with_fs_type(parameters: Mapping[str, str]) -> dict[str, str]:
    """Names the file system of a class as CSI does."""
    return {_FS_TYPE if key.lower() == "fstype" else key: value for key, value in parameters.items()}


class AWSElasticBlockStore(InTreeKind[AWSElasticBlockStoreVolumeSource]):
    field = "aws_elastic_block_store"
    driver = AWS
    provisioner = "kubernetes.io/aws-ebs"
    zone_key = class_zone_key = "topology.ebs.csi.aws.com/zone"
    zones_tell_region = zone_parameters = True

    def handle(self, source: AWSElasticBlockStoreVolumeSource, labels: Mapping[str, str]) -> str:
        """`aws://<zone>/vol-…`, `aws:///vol-…` and `vol-…` name one volume; without `aws://` it is the id."""
        if not source.volume_id.startswith("aws://"):
            return source.volume_id
        found = _AWS_ID.fullmatch(source.volume_id)
        if found is None:
            raise InvalidSpec(
                f"awsElasticBlockStore.volumeID {source.volume_id[:100]!r} is not aws://<zone>/vol-<id>, nor vol-<id>"
            )
        return found[1]

    def csi(
        self, source: AWSElasticBlockStoreVolumeSource, pv: PersistentVolume
    ) -> CSIPersistentVolumeSource:
        return CSIPersistentVolumeSource(
            driver=AWS,
            volume_handle=self.handle(source, {}),
            fs_type=source.fs_type,
            read_only=source.read_only,
            volume_attributes={"partition": str(source.partition)},
        )

    def in_tree(self, source: CSIPersistentVolumeSource) -> AWSElasticBlockStoreVolumeSource:
        return AWSElasticBlockStoreVolumeSource(
            volume_id=source.volume_handle,
            fs_type=source.fs_type,
            read_only=source.read_only,
            partition=partition(source.volume_attributes.get("partition", "0")),
        )

    def region_of(self, zones: list[str]) -> str:
        """us-west-2a, us-gov-east-1a; local zones as us-west-2-lax-1a, wavelength zones as
        us-east-1-wl1-bos-wlz-1."""
        return one_region(zones, [_aws_region(zone) for zone in zones])

    def class_parameters(self, parameters: Mapping[str, str]) -> dict[str, str]:
        """An in-tree class raised too few IOPS to the least that a volume can have."""
        raised = any(key.lower() == "iopspergb" for key in parameters)
        return with_fs_type(parameters) | ({"allowautoiopspergbincrease": "true"} if raised else {})


def _aws_region(zone: str) -> str:
    parts = zone.split("-")
    if len(parts) in (3, 4) and len(parts[-1]) == 2:
        return "-".join([*parts[:-1], parts[-1][0]])
    if len(parts) in (5, 7):
        return "-".join(parts[:3])
    raise InvalidSpec(f"{zone[:100]!r} is not a zone of AWS")


class GCEPersistentDisk(InTreeKind[GCEPersistentDiskVolumeSource]):
    field = "gce_persistent_disk"
    driver = GCE
    provisioner = "kubernetes.io/gce-pd"
    zone_key = class_zone_key = "topology.gke.io/zone"
    zones_tell_region = zone_parameters = True

    def handle(self, source: GCEPersistentDiskVolumeSource, labels: Mapping[str, str]) -> str:
        """The project is never known, the zone or region where the volume's labels tell it."""
        if not source.pd_name:
            return ""
        zones = next((labels[key] for key in ZONES if labels.get(key)), UNSPECIFIED).split(SEVERAL)
        place = f"zones/{zones[0]}" if len(zones) == 1 else f"regions/{self.region_of(zones)}"
        return f"projects/{UNSPECIFIED}/{place}/disks/{source.pd_name}"

    def csi(self, source: GCEPersistentDiskVolumeSource, pv: PersistentVolume) -> CSIPersistentVolumeSource:
        return CSIPersistentVolumeSource(
            driver=GCE,
            volume_handle=self.handle(source, pv.metadata.labels),
            fs_type=source.fs_type,
            read_only=source.read_only,
            volume_attributes={"partition": str(source.partition or "")},
        )

    def inline_name(self, source: GCEPersistentDiskVolumeSource, handle: str) -> str:
        return f"{GCE}-{source.pd_name}"

    def inline_access_mode(self, source: GCEPersistentDiskVolumeSource) -> str:
        return "ReadOnlyMany" if source.read_only else "ReadWriteOnce"

    def access_modes(self, modes: tuple[str, ...]) -> tuple[str, ...]:
        """The driver refuses what the old plugin took: it attached for one writer whatever was asked."""
        if not modes:
            return ()
        reads = "ReadOnlyMany" in modes and {"ReadWriteOnce", "ReadWriteMany"}.isdisjoint(modes)
        return ("ReadOnlyMany",) if reads else ("ReadWriteOnce",)

    def in_tree(self, source: CSIPersistentVolumeSource) -> GCEPersistentDiskVolumeSource:
        parts = source.volume_handle.split("/")
        if len(parts) < 6:
            raise InvalidSpec(f"{source.volume_handle[:100]!r} is not projects/P/zones/Z/disks/D")
        return GCEPersistentDiskVolumeSource(
            pd_name=parts[5],
            fs_type=source.fs_type,
            read_only=source.read_only,
            partition=partition(source.volume_attributes.get("partition") or "0"),
        )

    def region_of(self, zones: list[str]) -> str:
        """europe-west1-b is in europe-west1."""
        odd = [zone for zone in zones if zone.count("-") != 2]
        if odd:
            raise InvalidSpec(f"{odd[0][:100]!r} is not a zone of Google's: {{locale}}-{{region}}-{{zone}}")
        return one_region(zones, [zone.rpartition("-")[0] for zone in zones])

    def class_parameters(self, parameters: Mapping[str, str]) -> dict[str, str]:
        return with_fs_type(parameters)


class Cinder(InTreeKind[CinderVolumeSource]):
    field = "cinder"
    driver = CINDER
    provisioner = "kubernetes.io/cinder"
    zone_key = class_zone_key = "topology.cinder.csi.openstack.org/zone"

    def handle(self, source: CinderVolumeSource, labels: Mapping[str, str]) -> str:
        return source.volume_id

    def csi(self, source: CinderVolumeSource, pv: PersistentVolume) -> CSIPersistentVolumeSource:
        return CSIPersistentVolumeSource(
            driver=CINDER,
            volume_handle=source.volume_id,
            fs_type=source.fs_type,
            read_only=source.read_only,
        )

    def in_tree(self, source: CSIPersistentVolumeSource) -> CinderVolumeSource:
        return CinderVolumeSource(
            volume_id=source.volume_handle, fs_type=source.fs_type, read_only=source.read_only
        )

    def class_parameters(self, parameters: Mapping[str, str]) -> dict[str, str]:
        return with_fs_type(parameters)


class VsphereVolume(InTreeKind[VsphereVirtualDiskVolumeSource]):
    field = "vsphere_volume"
    driver = VSPHERE
    provisioner = "kubernetes.io/vsphere-volume"
    zone_key = class_zone_key = "topology.csi.vmware.com/zone"
    region_key = "topology.csi.vmware.com/region"

    def handle(self, source: VsphereVirtualDiskVolumeSource, labels: Mapping[str, str]) -> str:
        return source.volume_path

    def csi(self, source: VsphereVirtualDiskVolumeSource, pv: PersistentVolume) -> CSIPersistentVolumeSource:
        policy = source.storage_policy_name
        return CSIPersistentVolumeSource(
            driver=VSPHERE,
            volume_handle=source.volume_path,
            fs_type=source.fs_type,
            volume_attributes={"storagepolicyname": policy} if policy else {},
        )

    def in_tree(self, source: CSIPersistentVolumeSource) -> VsphereVirtualDiskVolumeSource:
        path = source.volume_attributes.get("initialvolumefilepath", "")
        return VsphereVirtualDiskVolumeSource(volume_path=path, fs_type=source.fs_type)

    def class_parameters(self, parameters: Mapping[str, str]) -> dict[str, str]:
        known = {_VSPHERE_PARAMETERS.get(key.lower()): value for key, value in parameters.items()}
        return {key: value for key, value in known.items() if key} | {"csimigration": "true"}


class PortworxVolume(InTreeKind[PortworxVolumeSource]):
    field = "portworx_volume"
    driver = PORTWORX
    provisioner = "kubernetes.io/portworx-volume"

    def handle(self, source: PortworxVolumeSource, labels: Mapping[str, str]) -> str:
        return source.volume_id

    def csi(self, source: PortworxVolumeSource, pv: PersistentVolume) -> CSIPersistentVolumeSource:
        named = [pv.metadata.annotations[key] for key in _PORTWORX_SECRET if key in pv.metadata.annotations]
        secret = SecretReference(name=named[0], namespace=named[1]) if len(named) == 2 else None
        return CSIPersistentVolumeSource(
            driver=PORTWORX,
            volume_handle=source.volume_id,
            fs_type=source.fs_type,
            controller_publish_secret_ref=secret,
            controller_expand_secret_ref=secret,
            node_stage_secret_ref=secret,
            node_publish_secret_ref=secret,
            node_expand_secret_ref=secret,
        )

    def inline_access_mode(self, source: PortworxVolumeSource) -> str:
        return "ReadOnlyMany" if source.read_only else "ReadWriteOnce"

    def in_tree(self, source: CSIPersistentVolumeSource) -> PortworxVolumeSource:
        return PortworxVolumeSource(
            volume_id=source.volume_handle, fs_type=source.fs_type, read_only=source.read_only
        )

    def class_parameters(self, parameters: Mapping[str, str]) -> dict[str, str]:
        """One Secret for all calls."""
        found: dict[str, str] = {}
        for key, value in parameters.items():
            if key.lower() in _PORTWORX_SECRET:
                part = key.lower().removeprefix("openstorage.io/auth-")
                found |= {f"csi.storage.k8s.io/{call}-{part}": value for call in _PORTWORX_CALLS}
            else:
                found[key] = value
        return found


KINDS: tuple[InTreeKind[Any], ...] = (
    AWSElasticBlockStore(),
    GCEPersistentDisk(),
    AzureDisk(),
    Cinder(),
    VsphereVolume(),
    PortworxVolume(),
    AzureFile(),
)
BY_DRIVER = {kind.driver: kind for kind in KINDS}
BY_PROVISIONER = {kind.provisioner: kind for kind in KINDS}
