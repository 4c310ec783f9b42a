"""Questions about volumes and classes of former in-tree plugins, drawn by a seed: usual ones and odd ones.

Left out, as the library's own answer to them is drawn (it walks through a Go map) or has no meaning:
attributes and parameters that differ in capitals only; `zone` and `zones` together; an empty list of access
modes.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

Question = dict[str, Any]
Json = dict[str, Any]

GA, BETA = "topology.kubernetes.io", "failure-domain.beta.kubernetes.io"
KEYS = {
    "ebs.csi.aws.com": ["topology.ebs.csi.aws.com/zone"],
    "pd.csi.storage.gke.io": ["topology.gke.io/zone"],
    "cinder.csi.openstack.org": ["topology.cinder.csi.openstack.org/zone"],
    "csi.vsphere.vmware.com": ["topology.csi.vmware.com/zone", "topology.csi.vmware.com/region"],
    "disk.csi.azure.com": ["topology.disk.csi.azure.com/zone"],
    "file.csi.azure.com": [],
    "pxd.portworx.com": [],
}
FIELDS = {
    "awsElasticBlockStore": "kubernetes.io/aws-ebs",
    "gcePersistentDisk": "kubernetes.io/gce-pd",
    "azureDisk": "kubernetes.io/azure-disk",
    "azureFile": "kubernetes.io/azure-file",
    "cinder": "kubernetes.io/cinder",
    "vsphereVolume": "kubernetes.io/vsphere-volume",
    "portworxVolume": "kubernetes.io/portworx-volume",
}
ZONES = [
    "us-west-2a",
    "us-west-2b",
    "us-east-1c",
    "us-gov-east-1a",
    "us-west-2-lax-1a",
    "us-east-1-wl1-bos-wlz-1",
]
ZONES += [
    "europe-west1-b",
    "europe-west1-c",
    "asia-east1-a",
    "nova",
    "",
    " padded ",
    "0",
    "a-b",
    "us-west-10a",
]
AWS_IDS = [
    "vol-1",
    "aws://us-east-1a/vol-0a1b",
    "aws:///vol-2",
    "aws://us-east-1a//vol-3/",
    "aws://z/x/vol-4",
]
AWS_IDS += [
    "aws://vol-5",
    "aws://z/",
    "aws://z/vol-",
    "aws://z/snap-1",
    "other",
    "AWS://z/vol-6",
    "aws:/vol-7",
]
AZURE = "/subscriptions/S/resourceGroups/G/providers/Microsoft.Compute/disks"
AZURE_URIS = [f"{AZURE}/d1", f"{AZURE}/a/b", f"{AZURE}/", "https://account.blob.core.windows.net/vhds/d2.vhd"]
AZURE_URIS += [
    "HTTPS://account/vhds/d3",
    "http",
    "disk",
    f"x{AZURE.replace('.C', 'xC')}/d4",
    AZURE.lower() + "/d5",
]
GCE_HANDLES = [
    "projects/p/zones/z/disks/d",
    "projects/p/regions/r/disks/d",
    "d",
    "a/b/c/d/e",
    "a/b/c/d/e/f/g",
    "",
]
FILE_HANDLES = ["g#a#s", "g#a#s#d#n", "#a##", "g#a", "", "g#a#s#d"]
SECRETS = [
    "azure-storage-account-acc-secret",
    "mine",
    "x-azure-storage-account-a-secret-b",
    "azure-storage-account--secret",
]
PARAMETERS = ["type", "fsType", "fstype", "iopsPerGB", "IopsPerGB", "encrypted", "datastore", "diskformat"]
PARAMETERS += ["storagePolicyName", "hostFailuresToTolerate", "IOPSlimit", "availability", "cachingmode"]
PARAMETERS += [
    "openstorage.io/auth-secret-name",
    "openstorage.io/auth-secret-namespace",
    "repl",
    "kind",
    "diskStripes",
]


class Draw(random.Random):
    """Draws parts of objects."""

    def maybe(self, values: Json) -> Json:
        return {key: value for key, value in values.items() if self.random() < 0.5}

    def some(self, values: list[str], most: int = 3) -> list[str]:
        return self.sample(values, self.randint(0, min(most, len(values))))

    def flag(self) -> bool:
        return self.random() < 0.5


def questions(seed: int, number: int) -> list[Question]:
    """Returns the questions of a seed: always the same."""
    draw = Draw(seed)
    kinds: list[Callable[[Draw], Question]] = [_csi, _inline, _in_tree, _class]
    return [draw.choice(kinds)(draw) for _ in range(number)]


def _csi(draw: Draw) -> Question:
    field = draw.choice([*FIELDS])
    modes = draw.some(["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"])
    spec = {field: _source(draw, field, inline=False)} | _affinity(draw, [])
    spec |= {"accessModes": modes} if modes else {}
    spec |= draw.maybe(
        {"claimRef": {"namespace": draw.choice(["team", ""]), "name": "data"}, "mountOptions": ["noatime"]}
    )
    spec |= draw.maybe({"volumeMode": draw.choice(["Block", "Filesystem"]), "capacity": {"storage": "1Gi"}})
    return {"do": "csi", "object": {"metadata": _metadata(draw), "spec": spec}}


def _inline(draw: Draw) -> Question:
    field = draw.choice([*FIELDS])
    volume = {"name": "data", field: _source(draw, field, inline=True)}
    return {"do": "inline", "object": volume, "namespace": draw.choice(["team", "default", ""])}


def _in_tree(draw: Draw) -> Question:
    driver = draw.choice([*KEYS])
    handles = {
        "pd.csi.storage.gke.io": GCE_HANDLES,
        "disk.csi.azure.com": AZURE_URIS,
        "file.csi.azure.com": FILE_HANDLES,
    }
    attributes = {
        "partition": draw.choice(["", "0", "1", "+2", "-3", "x", "1.5", "007"]),
        draw.choice(["cachingmode", "cachingMode"]): draw.choice(["", "ReadOnly"]),
        draw.choice(["fstype", "fsType"]): draw.choice(["", "xfs"]),
        draw.choice(["sharename", "shareName"]): draw.choice(["", "share"]),
        draw.choice(["secretname", "secretName"]): draw.choice(["", "mine"]),
        "secretnamespace": draw.choice(["", "vault"]),
        "initialvolumefilepath": "[ds] a.vmdk",
    }
    csi: Json = {"driver": driver, "volumeHandle": draw.choice(handles.get(driver, ["vol-1", "x", ""]))}
    csi |= draw.maybe({"fsType": draw.choice(["", "ext4"]), "readOnly": draw.flag()})
    csi |= draw.maybe(
        {"nodeStageSecretRef": {"name": draw.choice(["", "s"]), "namespace": draw.choice(["", "n"])}}
    )
    csi |= {"volumeAttributes": draw.maybe(attributes)}
    spec = {"csi": csi, "accessModes": ["ReadWriteOnce"]} | _affinity(draw, KEYS[driver])
    return {"do": "in-tree", "object": {"metadata": _metadata(draw), "spec": spec}}


def _class(draw: Draw) -> Question:
    field = draw.choice([*FIELDS])
    names = {name.lower(): name for name in draw.some(PARAMETERS, 6)}
    parameters = {name: draw.choice(["a", "", "xfs", "10"]) for name in names.values()}
    if draw.random() < 0.4:
        parameters[draw.choice(["zone", "Zone"])] = draw.choice(ZONES)
    elif draw.random() < 0.4:
        parameters[draw.choice(["zones", "zoneS"])] = ",".join(draw.some(ZONES))
    found: Json = {"metadata": {"name": "fast"}, "provisioner": FIELDS[field]}
    found |= {"parameters": parameters} if parameters else {}
    if draw.random() < 0.4:
        keys = [f"{GA}/zone", f"{BETA}/zone", f"{GA}/region", "topology.disk.csi.azure.com/zone", "rack"]
        found["allowedTopologies"] = [
            {
                "matchLabelExpressions": [
                    {"key": key, "values": draw.some(ZONES) or ["1"]} for key in draw.some(keys)
                ]
            }
            for _ in range(draw.randint(1, 2))
        ]
    return {"do": "class", "object": found}


def _metadata(draw: Draw) -> Json:
    zones = draw.choice([draw.choice(ZONES), "__".join(draw.some(ZONES, 2)), "us-west-2a__us-west-2b"])
    labels = {f"{GA}/zone": zones, f"{BETA}/zone": draw.choice(ZONES), "team": "a"}
    labels |= {f"{GA}/region": draw.choice(["us-west-2", ""]), f"{BETA}/region": "europe-west1"}
    annotations = {
        "openstorage.io/auth-secret-name": draw.choice(["px", ""]),
        "openstorage.io/auth-secret-namespace": "vault",
        "kubernetes.io/azure-file-resource-group": "group",
        "other": "1",
    }
    return {"name": "pv-1"} | draw.maybe(
        {"labels": draw.maybe(labels), "annotations": draw.maybe(annotations)}
    )


def _affinity(draw: Draw, keys: list[str]) -> Json:
    if draw.flag():
        return {}
    names = [f"{GA}/zone", f"{BETA}/zone", f"{GA}/region", f"{BETA}/region", "rack", *keys, *keys, *keys]
    terms = [
        {
            "matchExpressions": [
                {"key": key, "operator": "In", "values": draw.some(ZONES)} for key in draw.some(names, 2)
            ]
        }
        for _ in range(draw.randint(0, 2))
    ]
    return {"nodeAffinity": draw.choice([{"required": {"nodeSelectorTerms": terms}}] * 4 + [{}])}


def _source(draw: Draw, field: str, *, inline: bool) -> Json:
    common = draw.maybe({"fsType": draw.choice(["ext4", "xfs", ""]), "readOnly": draw.flag()})
    part = draw.maybe({"partition": draw.choice([0, 1, 12])})
    if field == "awsElasticBlockStore":
        return {"volumeID": draw.choice(AWS_IDS)} | common | part
    if field == "gcePersistentDisk":
        return {"pdName": "disk-1"} | common | part
    if field == "azureDisk":
        kind = draw.choice(["Managed", "managed", "MANAGED", "Shared", "Dedicated"])
        more = draw.maybe({"cachingMode": draw.choice(["", "None", "ReadOnly"]), "kind": kind})
        return {"diskName": "d", "diskURI": draw.choice(AZURE_URIS)} | common | more
    if field == "azureFile":
        found = {"secretName": draw.choice(SECRETS), "shareName": "share", "readOnly": draw.flag()}
        return found | (draw.maybe({"secretNamespace": draw.choice(["vault", ""])}) if not inline else {})
    if field == "vsphereVolume":
        more = draw.maybe({"storagePolicyName": draw.choice(["gold", ""]), "storagePolicyID": "p-1"})
        return (
            {"volumePath": "[ds] a/b.vmdk"} | {key: common[key] for key in common if key == "fsType"} | more
        )
    return {"volumeID": draw.choice(["id-1", "a/b"])} | common
