"""The objects that belong to a node's pods: upstream's graph of the Node authorizer.

    node <- pod <- ConfigMap, Secret, ServiceAccount, claim <- PersistentVolume <- Secret
    node <- VolumeAttachment

Relations that an object itself holds (a pod's node, a volume's claim, an attachment's node) are read from the
object. Only the reverse relations are stored here: the nodes whose pods name an object, and the volumes that
name a Secret. A look-up first brings them up to date from the changes that the store has committed since the
last one. So a change costs in proportion to its own size, however large the store is, and the relations are
never older than what a node can have read. They are rebuilt from the store after a restart, and if the
history no longer has all changes since the last look-up.

It must not know users, verbs or requests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from mooring.apiserver.access.object_references import (
    SECRETS,
    Named,
    claim_of_volume,
    of_pod,
    secrets_of_volume,
)
from mooring.apiserver.errors import Expired
from mooring.apiserver.store.history import Cursor, Item, Key
from mooring.apiserver.store.object_store import Store, decode
from mooring.apiserver.values.dotted import text_at

PODS, VOLUMES, ATTACHMENTS = "pods", "persistentvolumes", "volumeattachments.storage.k8s.io"
SLICES = "resourceslices.resource.k8s.io"
_NODE = "spec.nodeName"


class Relations:
    """The relations of one store's objects, as of its last commit."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._pods = _Named()
        self._volumes = _Named()
        self._following = (
            _Follower(store, PODS, self._pod_changed, self._pods.clear),
            _Follower(store, VOLUMES, self._volume_changed, self._volumes.clear),
        )

    def has(self, node: str, resource: str, namespace: str, name: str) -> bool:
        """Whether the object belongs to the node. This includes an object that does not exist, if one of the
        node's pods names it."""
        for each in self._following:
            each.catch_up()
        match resource:
            case "pods":
                pod = self._store.get(PODS, (namespace, name))
                return pod is not None and pod.fields.get(_NODE) == node
            case "resourceslices":
                slice = self._store.get(SLICES, ("", name))
                return slice is not None and slice.fields.get(_NODE) == node
            case "volumeattachments":
                attachment = self._store.get(ATTACHMENTS, ("", name))
                return attachment is not None and text_at(decode(attachment.body), _NODE) == node
            case "persistentvolumes":
                return self._has_volume(node, name)
            case "secrets":
                named = (SECRETS, namespace, name)
                return node in self._pods.by(named) or any(
                    self._has_volume(node, v) for v in self._volumes.by(named)
                )
            case "configmaps" | "serviceaccounts" | "persistentvolumeclaims":
                return node in self._pods.by((resource, namespace, name))
            case _:
                return False

    def _has_volume(self, node: str, name: str) -> bool:
        volume = self._store.get(VOLUMES, ("", name))
        claim = claim_of_volume(decode(volume.body)) if volume is not None else None
        return claim is not None and node in self._pods.by(claim)

    def _pod_changed(self, before: Item | None, now: Item | None) -> None:
        if before and now and _place(before) == _place(now):
            return  # a bound pod's references do not change
        item = now or before
        assert item is not None
        named = dict.fromkeys(of_pod(decode(now.body))) if now and now.fields.get(_NODE) else {}
        self._pods.put(item.key, now.fields[_NODE] if named and now else "", tuple(named))

    def _volume_changed(self, before: Item | None, now: Item | None) -> None:
        item = now or before
        assert item is not None
        named = dict.fromkeys(secrets_of_volume(decode(now.body))) if now else {}
        self._volumes.put(item.key, item.key[1], tuple((SECRETS, *each) for each in named))


def _place(pod: Item) -> tuple[str, str | None]:
    return pod.uid, pod.fields.get(_NODE)


class _Named:
    """For each named object, the objects' owners that name it (nodes or volumes), and how often."""

    def __init__(self) -> None:
        self._by: dict[Named, Counter[str]] = {}
        self._of: dict[Key, tuple[str, Sequence[Named]]] = {}

    def clear(self) -> None:
        self._by.clear()
        self._of.clear()

    def by(self, named: Named) -> Mapping[str, int]:
        """The owners that name the object, and how often."""
        return self._by.get(named, {})

    def put(self, key: Key, who: str, named: Sequence[Named]) -> None:
        """Replaces the references of the object `key`: its owner `who` now names exactly these."""
        before, past = self._of.pop(key, ("", ()))
        for each in past:
            counts = self._by[each]
            counts[before] -= 1
            if not counts[before]:
                del counts[before]
            if not counts:
                del self._by[each]
        for each in named:
            self._by.setdefault(each, Counter())[who] += 1
        if named:
            self._of[key] = who, named


class _Follower:
    """Passes the changes of one resource on, at each `catch_up`."""

    def __init__(
        self,
        store: Store,
        resource: str,
        changed: Callable[[Item | None, Item | None], None],
        clear: Callable[[], None],
    ) -> None:
        self._store, self._resource = store, resource
        self._changed, self._clear = changed, clear
        self._cursor: Cursor | None = None

    def catch_up(self) -> None:
        """Passes on the changes since the last call, or all objects if the history no longer has those
        changes."""
        if self._cursor is None:
            self._begin()
            return
        if self._cursor.at_end:
            return
        try:
            changes = self._cursor.take()
        except Expired:
            self._begin()
            return
        for each in changes:
            self._changed(each.previous, None if each.type == "DELETED" else each.item)

    def _begin(self) -> None:
        collection = self._store.collection(self._resource)
        self._cursor = Cursor(collection.history, collection.history.end)
        self._clear()
        for item in collection.items.values():
            self._changed(None, item)
