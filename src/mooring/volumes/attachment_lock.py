"""The lock of a volume whose storage does not refuse a second attach: an annotation of its PersistentVolume. Pure.

The pod-safety document's compare-and-swap (steps 6, 13, 14): the lock names the node and the pod that the volume was
granted to, and the *epoch* of that grant. Each grant advances the epoch, and a VolumeAttachment carries the epoch under
which it was made: attacher, report and node compare the two, so that a VolumeAttachment that was created late, by a
leader that is gone, is worth nothing. A lock is never released, only granted on.

A forced release (the node was not asked) advances the epoch, too, whatever the storage, and *closes* the node for the
volume: what is still mounted there must not come to life again by a new grant (protocol.md C16). It is opened when the
node's agent says that nothing of the volume is mounted, or after another boot.
"""

from __future__ import annotations

import msgspec

from mooring.kube.objects import Node, PersistentVolume, VolumeAttachment
from mooring.volumes.errors import InvalidSpec
from mooring.volumes.interfaces import AttachCapabilities
from mooring.volumes.names import ATTACH_EPOCH, AWAITED

ATTACHED_TO = "mooring.dev/attached-to"


class Closed(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The boot of a node from which the volume was taken by force (boot ID "": nobody knew), and the epoch since."""

    epoch: int
    boot_id: str = msgspec.field(default="", name="bootID")


class Lock(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """To whom the volume is granted; `closed` by the names of nodes. The epoch of a volume without lock is 0."""

    epoch: int = 0
    node: str = ""
    node_uid: str = msgspec.field(default="", name="nodeUID")
    pod: str = ""
    closed: dict[str, Closed] = {}

    def granted(self, node: Node, pod: str) -> Lock:
        """The next epoch is this node's, and whatever closed the node is over."""
        others = {name: closed for name, closed in self.closed.items() if name != node.name}
        return Lock(self.epoch + 1, node.name, node.uid, pod, others)

    def released(self, node: str, boot_id: str, *, advance: bool) -> Lock:
        """Taken from the node by force. `advance`: all attachments made so far are void."""
        epoch = self.epoch + advance
        return msgspec.structs.replace(self, epoch=epoch, closed={**self.closed, node: Closed(epoch, boot_id)})

    def opened(self, node: str) -> Lock:
        """The node may have the volume again."""
        return msgspec.structs.replace(self, closed={name: c for name, c in self.closed.items() if name != node})


def needs_lock(capabilities: AttachCapabilities, *, exclusive: bool) -> bool:
    """Whether only a lock keeps a second node from the volume: the storage's own word does not (protocol.md C14)."""
    return exclusive and not capabilities.refuses


def lock_of(persistent_volume: PersistentVolume | None) -> Lock:
    """The lock as it is. InvalidSpec if it cannot be read: then nobody may grant anything."""
    text = persistent_volume.metadata.annotations.get(ATTACHED_TO) if persistent_volume is not None else None
    if not text:
        return Lock()
    try:
        return msgspec.json.decode(text, type=Lock)
    except msgspec.DecodeError as error:
        raise InvalidSpec(
            f"annotation {ATTACHED_TO} of PersistentVolume {persistent_volume and persistent_volume.name} is damaged "
            f"({error}): nobody knows who has the volume. When no node uses it, remove the annotation"
        ) from None


def annotation(lock: Lock) -> dict[str, str]:
    """The lock as an annotation of the PersistentVolume."""
    return {ATTACHED_TO: msgspec.json.encode(lock).decode()}


def epoch_of(record: VolumeAttachment) -> int:
    """The epoch under which the VolumeAttachment was made; 0 if the volume had no lock."""
    text = record.metadata.annotations.get(ATTACH_EPOCH, "0")
    return int(text) if text.isdecimal() else -1


def is_current(record: VolumeAttachment, persistent_volume: PersistentVolume | None) -> bool:
    """Whether the VolumeAttachment was made under the lock as it is now. Raises InvalidSpec as `lock_of`."""
    return epoch_of(record) == lock_of(persistent_volume).epoch


def closed_at(persistent_volume: PersistentVolume | None, node_name: str) -> int | None:
    """The epoch of a lock that is closed for the node; None if it is not, or cannot be read."""
    try:
        lock = lock_of(persistent_volume)
    except InvalidSpec:
        return None
    return lock.epoch if node_name in lock.closed else None


def may_open(closed: Closed, node: Node | None, volume: str) -> bool:
    """Whether the node that was closed for the volume has shown that nothing of it is left there."""
    if node is None or node.ready == "Unknown":
        return False
    boot_id = node.status.node_info.boot_id
    if closed.boot_id and boot_id and boot_id != closed.boot_id:
        return True
    return volume not in node.status.volumes_in_use or awaited_epochs(node).get(volume, -1) >= closed.epoch


def awaited_epochs(node: Node) -> dict[str, int]:
    """What the node's agent says under AWAITED."""
    try:
        return msgspec.json.decode(node.metadata.annotations.get(AWAITED, "{}"), type=dict[str, int])
    except msgspec.DecodeError:
        return {}
