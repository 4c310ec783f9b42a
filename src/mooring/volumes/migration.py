"""Volumes of former in-tree plugins (awsElasticBlockStore, gcePersistentDisk, ...), as the CSI
volumes that they are today. Pure.

Kubernetes has removed these plugins. It serves such volumes through CSI drivers, under names that
csi-translation-lib makes from the old source. Only what attaching needs is here: driver and handle. Azure
Files are left out: their driver does not attach.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from mooring.kube.objects import PersistentVolumeSpec, Volume
from mooring.volumes.spec import VolumeSpec
from mooring.volumes.topology import SEVERAL

AWS = "ebs.csi.aws.com"
GCE = "pd.csi.storage.gke.io"
AZURE_DISK = "disk.csi.azure.com"
CINDER = "cinder.csi.openstack.org"
VSPHERE = "csi.vsphere.vmware.com"
PORTWORX = "pxd.portworx.com"

_PROVISIONERS = {
    "kubernetes.io/aws-ebs": AWS,
    "kubernetes.io/gce-pd": GCE,
    "kubernetes.io/azure-disk": AZURE_DISK,
    "kubernetes.io/cinder": CINDER,
    "kubernetes.io/vsphere-volume": VSPHERE,
    "kubernetes.io/portworx-volume": PORTWORX,
}
ONE_NODE_INLINE = frozenset({AZURE_DISK, CINDER})
"""Drivers of volumes that, if a pod defines them itself, one node may have at a time
(upstream: IsMultiAttachAllowed)."""
ZONES = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
UNSPECIFIED = "UNSPECIFIED"

_AWS_ID = re.compile(r"aws://[^/]*/(vol-[^/]+)")


class Migrated(NamedTuple):
    """The driver and handle of a volume."""

    driver: str
    handle: str


Source: TypeAlias = PersistentVolumeSpec | Volume


def driver_of(provisioner: str) -> str:
    """Returns the CSI driver that took an in-tree provisioner's place; any other provisioner's own name."""
    return _PROVISIONERS.get(provisioner, provisioner)


def migrated(source: Source, labels: Mapping[str, str] = {}) -> Migrated | None:
    """Returns the CSI volume that a PersistentVolume (with its labels) or a volume of a pod is; None if it is
    of another kind, or has no id."""
    if (aws := source.aws_elastic_block_store) is not None:
        return _named(AWS, _aws_handle(aws.volume_id))
    if (gce := source.gce_persistent_disk) is not None:
        return _named(GCE, _gce_handle(gce.pd_name, labels)) if gce.pd_name else None
    if (azure := source.azure_disk) is not None:
        return _named(AZURE_DISK, azure.disk_uri)
    if (cinder := source.cinder) is not None:
        return _named(CINDER, cinder.volume_id)
    if (vsphere := source.vsphere_volume) is not None:
        return _named(VSPHERE, vsphere.volume_path)
    if (portworx := source.portworx_volume) is not None:
        return _named(PORTWORX, portworx.volume_id)
    return None


def migrated_spec(spec: VolumeSpec) -> Migrated | None:
    """The same for a spec, wherever it is written."""
    if spec.persistent_volume is not None:
        return migrated(spec.persistent_volume.spec, spec.persistent_volume.metadata.labels)
    return migrated(spec.volume) if spec.volume is not None else None


def _named(driver: str, handle: str) -> Migrated | None:
    return Migrated(driver, handle) if handle else None


def _aws_handle(volume_id: str) -> str:
    """`aws://<zone>/vol-…`, `aws:///vol-…` and `vol-…` name one volume; what has no `aws://` is the id."""
    if not volume_id.startswith("aws://"):
        return volume_id
    found = _AWS_ID.fullmatch(volume_id)
    return found[1] if found else ""


def _gce_handle(name: str, labels: Mapping[str, str]) -> str:
    zone = next((labels[key] for key in ZONES if labels.get(key)), UNSPECIFIED)
    if SEVERAL not in zone:
        return f"projects/{UNSPECIFIED}/zones/{zone}/disks/{name}"
    region = zone.split(SEVERAL)[0].rpartition("-")[0]
    return f"projects/{UNSPECIFIED}/regions/{region}/disks/{name}"
