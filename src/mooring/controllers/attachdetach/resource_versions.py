"""Whether the resourceVersions of Nodes and of VolumeAttachments can be compared.

A store that keeps both kinds (etcd, or a store in its place) counts them in one sequence: of two changes, the
later one has the greater resourceVersion. An API server can be told to keep kinds in separate stores; then
the versions of two kinds say nothing about before and after. Three lists in a row show which it is: the
versions of two separate sequences do not fit between each other.
"""

from __future__ import annotations

from mooring.kube.client import Client
from mooring.kube.objects import Node, VolumeAttachment


async def versions_comparable(client: Client) -> bool:
    """Whether a VolumeAttachment's resourceVersion can be compared with a Node's. Reads
    three times; raises KubeError."""
    before = await client.version(Node)
    between = await client.version(VolumeAttachment)
    return before <= between <= await client.version(Node)
