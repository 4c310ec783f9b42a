"""Volumes of former in-tree plugins, as the CSI volumes that they are."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mooring.kube.objects import PersistentVolumeSpec, Volume
from mooring.volumes.migration import Migrated, migrated

ZONE = "topology.kubernetes.io/zone"
CASES: list[tuple[dict[str, Any], dict[str, str], Migrated | None]] = [
    (
        {"awsElasticBlockStore": {"volumeID": "aws://us-east-1a/vol-1"}},
        {},
        Migrated("ebs.csi.aws.com", "vol-1"),
    ),
    ({"awsElasticBlockStore": {"volumeID": "aws:///vol-1"}}, {}, Migrated("ebs.csi.aws.com", "vol-1")),
    (
        {"awsElasticBlockStore": {"volumeID": "vol-1", "partition": 1}},
        {},
        Migrated("ebs.csi.aws.com", "vol-1"),
    ),
    ({"awsElasticBlockStore": {"volumeID": "aws://a/b/vol-1"}}, {}, None),
    ({"awsElasticBlockStore": {"volumeID": ""}}, {}, None),
    (
        {"gcePersistentDisk": {"pdName": "d"}},
        {ZONE: "europe-west1-b"},
        Migrated("pd.csi.storage.gke.io", "projects/UNSPECIFIED/zones/europe-west1-b/disks/d"),
    ),
    (
        {"gcePersistentDisk": {"pdName": "d"}},
        {"failure-domain.beta.kubernetes.io/zone": "europe-west1-b__europe-west1-c"},
        Migrated("pd.csi.storage.gke.io", "projects/UNSPECIFIED/regions/europe-west1/disks/d"),
    ),
    (
        {"gcePersistentDisk": {"pdName": "d"}},
        {},
        Migrated("pd.csi.storage.gke.io", "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d"),
    ),
    (
        {"azureDisk": {"diskName": "d", "diskURI": "/subscriptions/s/disks/d"}},
        {},
        Migrated("disk.csi.azure.com", "/subscriptions/s/disks/d"),
    ),
    ({"cinder": {"volumeID": "c1"}}, {}, Migrated("cinder.csi.openstack.org", "c1")),
    ({"vsphereVolume": {"volumePath": "[ds] a.vmdk"}}, {}, Migrated("csi.vsphere.vmware.com", "[ds] a.vmdk")),
    ({"portworxVolume": {"volumeID": "p1"}}, {}, Migrated("pxd.portworx.com", "p1")),
    ({"hostPath": {"path": "/srv"}}, {}, None),
]


@pytest.mark.parametrize(("written", "labels", "found"), CASES)
@pytest.mark.parametrize("kind", [PersistentVolumeSpec, Volume])
def test_driver_and_handle(
    kind: type[Any], written: dict[str, Any], labels: dict[str, str], found: Migrated | None
):
    assert migrated(msgspec.convert(written, kind), labels) == found
