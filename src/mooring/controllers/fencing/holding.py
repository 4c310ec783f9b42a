"""Holds a Node with a finalizer. Of one that is being deleted: reads what is left there, and keeps new pods
away from it. All is read live."""

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
    found = await _live(client, node)
    if found is None or (NODE_FINALIZER in found.metadata.finalizers) is held:
        return found
    others = [each for each in found.metadata.finalizers if each != NODE_FINALIZER]
    finalizers = [*others, NODE_FINALIZER] if held else others
    return await client.revise(found, {"metadata": {"finalizers": finalizers or None}})


async def cordon(client: Client, node: Node) -> Node | None:
    """Keeps new pods away from the Node of this uid, which is being deleted, as its absence would. Nothing
    takes that back: a deletion is never called off. Returns and raises what `hold` does."""
    found = await _live(client, node)
    if found is None or found.spec.unschedulable:
        return found
    return await client.revise(found, {"spec": {"unschedulable": True}})


async def _live(client: Client, node: Node) -> Node | None:
    found = await client.find(Node, node.name)
    return found if found is not None and found.uid == node.uid else None
