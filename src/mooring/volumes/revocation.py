"""Which storage is known to revoke: after a detach the old node can never write again,
whatever is mounted there. Data.

Only such storage may be taken by a mere timer from a node that does not answer (docs/protocol.md, "When a
node does not answer", 4). For a driver, the operator's override counts, else the annotation of its CSIDriver,
else this table; any other driver does not revoke. Never in the table: storage that a node reaches by itself
(iSCSI, FC, NFS, Ceph, Longhorn, ...). There a detach removes a record, not the path to the data.

The table names cloud disks whose detach is carried out by the hypervisor, below the guest: the
device is gone whatever the guest does. Sources: the providers' documentation of their disk
services' detach calls (force detach included).
"""

from __future__ import annotations

from collections.abc import Mapping

from mooring.kube.objects import CSIDriver

REVOKES = "mooring.dev/detach-revokes-access"
"""On a CSIDriver: "true" or "false"."""
REFUSES = "mooring.dev/refuses-second-attach"
"""On a CSIDriver: "false" if its storage silently attaches an exclusive volume to a second node. Such a
volume is locked on its PersistentVolume."""

WELL_KNOWN: Mapping[str, str] = {
    "ebs.csi.aws.com": "EC2 DetachVolume: the block device is removed from the instance; Force=true without the guest",
    "pd.csi.storage.gke.io": "Compute Engine instances.detachDisk: the disk leaves the virtual machine",
    "disk.csi.azure.com": "Azure: the data disk is removed from the virtual machine's storage profile",
    "cinder.csi.openstack.org": "Nova os-volume_attachments DELETE: the hypervisor takes the device away",
    "dobs.csi.digitalocean.com": "volume action detach: the hypervisor takes the device away",
    "csi.hetzner.cloud": "volume action detach: the hypervisor takes the device away",
    "csi.vsphere.vmware.com": "vSphere ReconfigVM_Task: the virtual disk is removed from the virtual machine",
}
"""By driver: how its detach takes effect."""


def driver_revokes(name: str, driver: CSIDriver | None, overrides: Mapping[str, bool]) -> bool:
    """Whether a detach by this CSI driver cuts the node off for good."""
    if name in overrides:
        return overrides[name]
    annotation = driver.metadata.annotations.get(REVOKES) if driver is not None else None
    return annotation == "true" if annotation is not None else name in WELL_KNOWN


def driver_refuses(driver: CSIDriver | None) -> bool:
    """Whether the storage itself refuses a second attach of an exclusive volume; assumed
    unless it is denied."""
    return driver is None or driver.metadata.annotations.get(REFUSES) != "false"
