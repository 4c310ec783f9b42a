"""Keys of work queues that hold more than one kind of object. Keys of different kinds are never equal.

A queue of one kind of object has strings for keys: "namespace/name", or the name.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec


class ObjectKey(msgspec.Struct, frozen=True, gc=False):
    """One object: `name` is "namespace/name", or the name of an object without a namespace."""

    kind: ClassVar[str] = "object"

    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


class ClaimKey(ObjectKey, frozen=True, gc=False):
    kind: ClassVar[str] = "claim"


class NamespaceKey(ObjectKey, frozen=True, gc=False):
    kind: ClassVar[str] = "namespace"


class NodeKey(ObjectKey, frozen=True, gc=False):
    kind: ClassVar[str] = "node"


class PodKey(ObjectKey, frozen=True, gc=False):
    kind: ClassVar[str] = "pod"


class VolumeKey(ObjectKey, frozen=True, gc=False):
    """A PersistentVolume."""

    kind: ClassVar[str] = "volume"
