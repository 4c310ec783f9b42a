"""The errors of this package.

    VolumeError
    ├── PluginError                   the plugin machinery
    │   ├── InvalidPlugin             a plugin was left out: bad name, a second one, init failed, not loadable
    │   ├── NoPluginMatched           no plugin for this spec or name
    │   └── MultiplePluginsMatched    more than one plugin claims this spec
    ├── ClaimError                    a pod's volume cannot be resolved (yet): `mooring.volumes.claims`
    ├── ContentMissing                the ConfigMap, Secret or key that the volume shows does not exist (yet)
    ├── InvalidSpec                   what the user wrote in the volume, its PV or class cannot work: no retry
    ├── SizeInfeasible                the volume can never have the size that it is to grow to
    ├── StorageRefused                the storage said no: the operation has certainly not happened
    │   ├── VolumeInUse               attached elsewhere; `nodes` says where
    │   ├── DeviceStillInUse          a detach was refused, because the node still uses the device
    │   ├── VolumeNotFound            the storage has no such volume
    │   ├── SnapshotNotFound          the storage has no such snapshot
    │   ├── DeletedVolumeInUse        a volume to be deleted is still attached; deletion is tried again later
    │   └── StorageFull               it has no room for the volume where it is wanted
    ├── NotAsked                      the request was not sent, or not let in: nothing has happened
    │   ├── NodeUnsuited                  the volume cannot be made for that node; for another one it may
    │   └── LockNotHeld               the volume is locked for another node, or for a later attachment
    ├── OutcomeUnknown                the storage did not answer, or not clearly: it may have happened
    │   └── MadeOtherwise                 a volume of that name is there, and is another than is wanted now
    ├── DeviceNotAttached             the device did not appear on this node in time
    └── WrongDevice                   the device is there, but it is not this volume's

**Any other exception of an attach or detach than StorageRefused, NotAsked and InvalidSpec leaves its outcome
unknown**, and unknown counts as attached.
"""

from __future__ import annotations

from collections.abc import Sequence


class VolumeError(Exception):
    """Base of all errors of `mooring.volumes`."""


class PluginError(VolumeError):
    """Something about plugins themselves rather than about a volume."""


class InvalidPlugin(PluginError):
    """A plugin was left out; `plugin` is its name as far as known."""

    def __init__(self, plugin: str, problem: str) -> None:
        self.plugin = plugin
        self.problem = problem
        super().__init__(f"volume plugin {plugin!r} was left out: {problem}")


class NoPluginMatched(PluginError):
    """No plugin supports the spec, or none has the name."""


class MultiplePluginsMatched(PluginError):
    """Several plugins claim the same spec, so it is not clear whose it is."""

    def __init__(self, spec_name: str, plugins: Sequence[str]) -> None:
        self.plugins = tuple(plugins)
        super().__init__(
            f"multiple volume plugins matched volume {spec_name}: {', '.join(plugins)}. Remove all but one of them"
        )


class ClaimError(VolumeError):
    """A pod's volume cannot be resolved. `reason` is one CamelCase word, `object` is "Kind
    namespace/name"."""

    def __init__(self, object: str, reason: str, message: str) -> None:
        self.object = object
        self.reason = reason
        super().__init__(message)


class InvalidSpec(VolumeError):
    """The volume as it is written cannot work; its author must change it."""


class SizeInfeasible(VolumeError):
    """The volume can never grow to the size that is asked for: the same request fails again."""


class ContentMissing(VolumeError):
    """The object or key that the volume is to show does not exist, or not yet."""


class StorageRefused(VolumeError):
    """The storage answered that it did not carry the request out: the outcome is certain,
    nothing has changed."""


class VolumeInUse(StorageRefused):
    """An exclusive volume is attached to other nodes, `nodes`."""

    def __init__(self, volume: str, node: str, nodes: Sequence[str]) -> None:
        self.volume = volume
        self.nodes = tuple(nodes)
        super().__init__(
            f"volume {volume} cannot be attached to node {node}: it is exclusive and attached to "
            f"node {', '.join(nodes)}. It must be detached there first"
        )


class DeviceStillInUse(StorageRefused):
    """A detach was refused: the node still uses the device. `holders` says who, in words."""

    def __init__(self, volume: str, node: str, holders: Sequence[str]) -> None:
        self.volume = volume
        self.node = node
        self.holders = tuple(holders)
        super().__init__(
            f"volume {volume} cannot be detached from node {node}, which still uses it: {'; '.join(holders)}"
        )


class SnapshotNotFound(StorageRefused):
    """The storage has no snapshot of this name."""


class VolumeNotFound(StorageRefused):
    """The storage has no volume of this name."""

    def __init__(self, volume: str, hint: str = "check the name, or create it") -> None:
        self.volume = volume
        super().__init__(f"the storage has no volume {volume}: {hint}")


class DeletedVolumeInUse(StorageRefused):
    """A volume is not deleted or emptied while it is attached to `nodes` or has other `users`. Not
    a failure: a Normal event, and another try later. A user is given in words: "used by pod
    ns/name", "mounted at ..."."""

    def __init__(self, volume: str, nodes: Sequence[str] = (), *, users: Sequence[str] = ()) -> None:
        self.volume = volume
        self.nodes = tuple(nodes)
        self.users = (*([f"attached to node {', '.join(nodes)}"] if nodes else []), *users)
        super().__init__(
            f"volume {volume} is still {'; '.join(self.users)}; it is reclaimed when that has ended"
        )


class StorageFull(StorageRefused):
    """The storage has no room for the volume where it is wanted; elsewhere it may have."""


class NotAsked(VolumeError):
    """The request was not sent to the storage, or not let in, for the reason given: nothing has happened. Of
    an earlier request that says nothing."""


class NodeUnsuited(NotAsked):
    """The volume cannot be made for that node; for another node it may."""


class LockNotHeld(NotAsked):
    """The lock of the volume was granted to another attachment since."""


class OutcomeUnknown(VolumeError):
    """The storage did not answer, or not clearly: what was requested may have happened, or
    may still happen."""


class MadeOtherwise(OutcomeUnknown):
    """A volume of that name is there, and is not as it is wanted now: an earlier request has made it."""


class DeviceNotAttached(VolumeError):
    """`wait_for_attach` gave up: the device is not on this node."""


class WrongDevice(VolumeError):
    """The device at the expected path belongs to another volume: it must not be mounted."""
