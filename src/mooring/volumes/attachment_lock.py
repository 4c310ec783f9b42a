"""The lock of a volume whose storage does not refuse a second attach: an annotation of its
PersistentVolume. Pure.

The lock names the node and the pod that the volume was granted to, and the *epoch* of that grant: a fencing
token. Each grant advances the epoch, and a VolumeAttachment carries the epoch under which it was made. The
attacher, the report and the node agent compare the two, so that a VolumeAttachment that a former lease holder
creates late is void (docs/protocol.md C14). A lock is never released, only granted on. Its first epoch is the
version of its PersistentVolume, so that one that is deleted and made anew repeats no epoch of the former.

A force detach (the node was not asked) advances the epoch whatever the storage is, and *closes* the node for
the volume: a later grant must not bring a mount back to life that is still there (docs/protocol.md C16). The
node is opened again when its agent says that nothing of the volume is mounted, or after another boot.
"""

from __future__ import annotations

import msgspec

from mooring.kube.objects import Node, PersistentVolume, VolumeAttachment
from mooring.volumes.errors import InvalidSpec
from mooring.volumes.interfaces import AttachCapabilities
from mooring.volumes.names import ATTACH_EPOCH, AWAITED

ATTACHED_TO = "mooring.dev/attached-to"


class Closed(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The boot of a node from which the volume was taken by force (boot ID "":
    unknown), and the epoch since then."""

    epoch: int
    boot_id: str = msgspec.field(default="", name="bootID")


class Lock(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The node and pod that the volume is granted to. `closed` is keyed by the names of
    nodes. Epoch 0: never granted."""

    epoch: int = 0
    node: str = ""
    node_uid: str = msgspec.field(default="", name="nodeUID")
    pod: str = ""
    closed: dict[str, Closed] = {}

    def granted(self, node: Node, pod: str, *, first: int = 1) -> Lock:
        """Returns the lock of the next epoch (of `first`, if it had none), granted to this node and open for
        it."""
        others = {name: closed for name, closed in self.closed.items() if name != node.name}
        return Lock(self._next(first), node.name, node.uid, pod, others)

    def released(self, node: str, boot_id: str, *, advance: bool, first: int = 1) -> Lock:
        """Returns the lock after a force detach from the node. `advance`: all VolumeAttachments made so far
        become void, `first` as in `granted`."""
        epoch = self._next(first) if advance else self.epoch
        return msgspec.structs.replace(
            self, epoch=epoch, closed={**self.closed, node: Closed(epoch, boot_id)}
        )

    def _next(self, first: int) -> int:
        return self.epoch + 1 if self.epoch else first

    def opened(self, node: str) -> Lock:
        """Returns the lock, open for the node again."""
        return msgspec.structs.replace(
            self, closed={name: c for name, c in self.closed.items() if name != node}
        )


def needs_lock(capabilities: AttachCapabilities, *, exclusive: bool) -> bool:
    """Whether only a lock keeps a second node from the volume, because the storage does not
    (docs/protocol.md C14)."""
    return exclusive and not capabilities.refuses


def lock_of(persistent_volume: PersistentVolume | None) -> Lock:
    """Returns the lock. Raises InvalidSpec if it cannot be read: then it must not be granted to any node."""
    text = persistent_volume.metadata.annotations.get(ATTACHED_TO) if persistent_volume is not None else None
    if not text:
        return Lock()
    try:
        return msgspec.json.decode(text, type=Lock)
    except msgspec.DecodeError as error:
        raise InvalidSpec(
            f"annotation {ATTACHED_TO} of PersistentVolume {persistent_volume and persistent_volume.name} is damaged "
            f"({error}): which node has the volume is not known. When no node uses it, remove the annotation"
        ) from None


def first_epoch(persistent_volume: PersistentVolume) -> int:
    """Returns the epoch of the first grant: later than any that a former PersistentVolume of the name can
    have had, because each grant was a write, and the API server's versions only grow."""
    version = persistent_volume.metadata.resource_version
    return int(version) if version.isdecimal() else 1


def annotation(lock: Lock) -> dict[str, str]:
    """Returns the lock as an annotation of the PersistentVolume."""
    return {ATTACHED_TO: msgspec.json.encode(lock).decode()}


def epoch_of(record: VolumeAttachment) -> int:
    """Returns the epoch under which the VolumeAttachment was made; 0 if the volume had no lock."""
    text = record.metadata.annotations.get(ATTACH_EPOCH, "0")
    return int(text) if text.isdecimal() else -1


def is_current(record: VolumeAttachment, persistent_volume: PersistentVolume | None) -> bool:
    """Whether the VolumeAttachment was made under the lock as it is now. Raises InvalidSpec as `lock_of`."""
    return epoch_of(record) == lock_of(persistent_volume).epoch


def closed_at(persistent_volume: PersistentVolume | None, node_name: str) -> int | None:
    """Returns the epoch of a lock that is closed for the node; None if it is open, or cannot be read."""
    try:
        lock = lock_of(persistent_volume)
    except InvalidSpec:
        return None
    return lock.epoch if node_name in lock.closed else None


def was_taken_from(persistent_volume: PersistentVolume, node_name: str, boot_id: str) -> bool:
    """Whether the volume was taken by force from a boot of the node, and has not been opened for it since;
    also if its lock cannot be read."""
    try:
        closed = lock_of(persistent_volume).closed.get(node_name)
    except InvalidSpec:
        return True
    return closed is not None and closed.boot_id in ("", boot_id)


def may_open(closed: Closed, node: Node | None, volume: str) -> bool:
    """Whether a node that is closed for the volume has shown that nothing of it is left there."""
    if node is None or node.ready == "Unknown":
        return False
    boot_id = node.status.node_info.boot_id
    if closed.boot_id and boot_id and boot_id != closed.boot_id:
        return True
    return volume not in node.status.volumes_in_use or awaited_epochs(node).get(volume, -1) >= closed.epoch


def awaited_epochs(node: Node) -> dict[str, int]:
    """Returns the epochs that the node's agent states in the annotation AWAITED."""
    try:
        return msgspec.json.decode(node.metadata.annotations.get(AWAITED, "{}"), type=dict[str, int])
    except msgspec.DecodeError:
        return {}
