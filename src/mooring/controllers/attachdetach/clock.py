"""Whether Nodes and VolumeAttachments are counted by one clock.

Of a store that keeps both (etcd, and what takes its place), resourceVersions are one sequence: of two changes the later
one has the greater number. An API server can be told to keep kinds in stores of their own; then numbers of two kinds
say nothing about before and after. What three lists tell, one after the other, shows which it is: two sequences that
know nothing of each other do not fit into each other.
"""

from __future__ import annotations

from mooring.kube.client import Client
from mooring.kube.objects import Node, VolumeAttachment


async def one_clock(client: Client) -> bool:
    """Whether the resourceVersion of a VolumeAttachment can be compared with that of a Node. Reads three times."""
    before = await client.version(Node)
    between = await client.version(VolumeAttachment)
    return before <= between <= await client.version(Node)
