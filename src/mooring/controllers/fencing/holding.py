"""Holds a Node with a finalizer, and reads what is left on one that is being deleted. All is read live."""

from __future__ import annotations

from mooring.controllers.fencing.keeping import what_is_left
from mooring.controllers.fencing.names import NODE_FINALIZER
from mooring.kube.client import Client
from mooring.kube.objects import Node, Pod, VolumeAttachment

LOOK_S = 5.0
"""Seconds after which what is left on a Node that is being deleted is read again."""


async def read_what_is_left(client: Client, node: str, uid: str) -> list[str]:
    """What the node has that no other node may have meanwhile, in words."""
    records = (await client.list(VolumeAttachment)).items
    pods = (await client.list(Pod, field_selector=f"spec.nodeName={node}")).items
    return what_is_left(node, uid, records, pods)


async def hold(client: Client, node: Node, *, held: bool) -> Node | None:
    """Writes the finalizer, or takes it off, of the Node of this uid, unless that is so already. Returns the
    Node as it is then, None if there is none of that uid. Conflict if it changes meanwhile."""
    found = await client.find(Node, node.name)
    if found is None or found.uid != node.uid:
        return None
    if (NODE_FINALIZER in found.metadata.finalizers) is held:
        return found
    others = [each for each in found.metadata.finalizers if each != NODE_FINALIZER]
    finalizers = [*others, NODE_FINALIZER] if held else others
    return await client.revise(found, {"metadata": {"finalizers": finalizers or None}})
