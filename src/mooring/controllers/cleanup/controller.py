"""The garbage collector and the namespace controller.

Kinds come from discovery. That an owner is gone is believed only after a live read; every deletion carries
the uid and the resourceVersion that were decided upon.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress
from random import Random
from typing import Any, assert_never

import msgspec

from mooring.controllers.cleanup.decide import FOREGROUND, ORPHAN, Action, Owner, decide
from mooring.controllers.cleanup.emptiness import Left, conditions
from mooring.controllers.cleanup.kinds import LEFT_OUT, Discovered, discover, metadata_kind
from mooring.kube.batches import one_by_one
from mooring.kube.client import Client
from mooring.kube.controller import Controller
from mooring.kube.errors import ApiError, NotFound
from mooring.kube.informer import Informer
from mooring.kube.keys import NamespaceKey
from mooring.kube.objects import Namespace, Node, Object, OwnerReference, Pod, Resource
from mooring.kube.times import Now

DEFINITIONS = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
KINDS = "kinds"
SETTLE_S = 1.0
LOOK_AGAIN_S = 300.0
UNKNOWN_AGAIN_S = 30.0
"""Seconds after which kinds are looked for again if those of a group could not be found."""
LISTED_S = 30.0
"""Seconds for which the first lists are waited for, as upstream."""


class ItemKey(msgspec.Struct, frozen=True, gc=False):
    """An object of any kind: `kind` is "group/plural", `key` "namespace/name" or the name."""

    kind: str
    key: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.key}"


Key = ItemKey | NamespaceKey


class NamespaceNotEmpty(Exception):
    """A namespace that is being deleted still holds something."""

    def __init__(self, namespace: str, left: Sequence[str]) -> None:
        super().__init__(f"namespace {namespace} still holds {', '.join(left)}")


class KindsNotKnown(Exception):
    """What is to be done needs to know all kinds, and the API server of these groups does not answer."""

    def __init__(self, groups: Sequence[str]) -> None:
        super().__init__(f"the kinds of {', '.join(groups)} are not known: their API server does not answer")


class CleanupController(Controller[str]):
    """Upstream's garbage-collector and namespace controllers in one.

    It watches CustomResourceDefinitions itself. A `Collector` works on the kinds that are served now, and is
    replaced when the kinds change.
    """

    name = "garbage-collector"
    workers = 1

    def __init__(self, client: Client, *, now: Now, random: Random) -> None:
        super().__init__(client, now=now, random=random)
        self.watch(
            metadata_kind(DEFINITIONS), lambda _: [KINDS], matters=lambda item: (item.uid, item.deleting)
        )
        self._found = Discovered([], [])
        self._collecting: asyncio.Task[None] | None = None

    async def started(self) -> None:
        """Marks the search for kinds once, also if there are no definitions."""
        self.queue.add(KINDS)

    async def lead(self) -> None:
        try:
            await super().lead()
        finally:
            await self._stop_collecting()

    async def reconcile(self, key: str) -> None:
        """Looks for kinds, and starts a collector if they have changed."""
        if self._collecting is not None:
            await asyncio.sleep(SETTLE_S)  # a new kind is served a moment after its definition exists
        found = await discover(self.client)
        if self._collecting is None or self._collecting.done() or found != self._found:
            await self._stop_collecting()
            self._found = found
            collector = Collector(
                self.client, found.resources, found.unknown, now=self.now, random=self.random
            )
            name = f"{self.name}: {len(found.resources)} kinds"
            self._collecting = asyncio.create_task(collector.run(), name=name)
            self._collecting.add_done_callback(self._ended)
        self.queue.add_after(KINDS, UNKNOWN_AGAIN_S if found.unknown else LOOK_AGAIN_S)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            self.log.error("collecting ended: begun again", error=repr(task.exception()))
            self.queue.add_after(KINDS, SETTLE_S)

    async def _stop_collecting(self) -> None:
        task, self._collecting = self._collecting, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})


class Collector(Controller[Key]):
    """Cleans up objects of the kinds given. `unknown`: groups that may have others.

    A kind that cannot be listed (its own API server does not answer, or its conversion fails) keeps no other
    from being collected. But what waits for dependents waits for those of such a kind, too; and an owner of
    it is asked for live: as long as it cannot be, nothing is done to what it owns.
    """

    name = "garbage-collector"

    def __init__(
        self,
        client: Client,
        resources: Sequence[Resource],
        unknown: Sequence[str] = (),
        *,
        now: Now,
        random: Random,
    ) -> None:
        super().__init__(client, now=now, random=random)
        self._resources = list(resources)
        self._unknown = list(unknown)
        self._namespaces = self.watch(Namespace, lambda namespace: [NamespaceKey(namespace.name)])
        self._caches: dict[str, Informer[Object]] = {}
        for resource in resources:
            if resource.plural not in LEFT_OUT:
                self._follow(resource)

    def _follow(self, resource: Resource) -> None:
        name = f"{resource.group}/{resource.plural}"
        self._caches[name] = self.watch(
            metadata_kind(resource),
            lambda item: self._touched(name, item),
            matters=lambda item: (
                item.uid,
                item.deleting,
                item.metadata.owner_references,
                item.metadata.finalizers,
            ),
            indexers={"uid": lambda item: [item.uid], "owner": _owner_uids},
        )

    def _touched(self, name: str, item: Object) -> Iterator[Key]:
        """Yields the object itself, what it owns, its owners, and its namespace if that waits to be empty."""
        namespace = self._namespaces.get(item.namespace)
        if namespace is not None and namespace.deleting and item.deleting:
            yield NamespaceKey(namespace.name)
        if item.metadata.owner_references or item.deleting:
            yield ItemKey(name, item.key)
        for other, cache in self._caches.items():
            yield from (ItemKey(other, dependent.key) for dependent in cache.by_index("owner", item.uid))
            for reference in item.metadata.owner_references:
                yield from (
                    ItemKey(other, owner.key)
                    for owner in cache.by_index("uid", reference.uid)
                    if owner.deleting
                )

    async def synced(self) -> None:
        await self._namespaces.synced()
        with suppress(TimeoutError):
            async with asyncio.timeout(LISTED_S):
                await super().synced()
        if missing := [name for name, cache in self._caches.items() if not cache.is_synced]:
            self.log.warning("KindsNotListed", kinds=missing)

    async def reconcile(self, key: Key) -> None:
        """Cleans up one object or one namespace."""
        if isinstance(key, NamespaceKey):
            await self._reconcile_namespace(self._namespaces.get(key.name))
        elif (item := self._caches[key.kind].get(key.key)) is not None:
            await self._reconcile_object(self._caches[key.kind], item)

    # --- owners and dependents

    async def _reconcile_object(self, cache: Informer[Object], item: Object) -> None:
        owners = [await self._owner(item, reference) for reference in item.metadata.owner_references]
        dependents = dict(self._dependents(item))
        decision = decide(item.metadata, owners, dependents)
        match decision.action:
            case Action.KEEP:
                return
            case Action.DELETE | Action.DELETE_FOREGROUND:
                await self._delete(cache.kind, item, foreground=decision.action is Action.DELETE_FOREGROUND)
            case Action.DROP_OWNERS:
                kept = [owner.reference for owner in owners if owner.present and not owner.waits]
                await self._patch(item, {"ownerReferences": msgspec.to_builtins(kept)})
            case Action.RELEASE_DEPENDENTS:
                await self._release_dependents(item)
            case Action.REMOVE_FINALIZER:
                if await self._has_unseen_dependents(item, all_kinds=decision.finalizer == ORPHAN):
                    return  # what was found marks it
                rest = [each for each in item.metadata.finalizers if each != decision.finalizer]
                await self._patch(item, {"finalizers": rest or None})
            case _:
                assert_never(decision.action)
        kind = item.RESOURCE.kind
        self.log.info(decision.action.value, object=f"{kind} {item.key}", reason=decision.reason.message)

    async def _owner(self, item: Object, reference: OwnerReference) -> Owner:
        for cache in self._caches.values():
            for found in cache.by_index("uid", reference.uid):
                return Owner(reference, True, found.deleting and FOREGROUND in found.metadata.finalizers)
        resource = self._resource_of(reference)
        if resource is None or (resource.namespaced and not item.namespace):
            # The kind is not served (now), or the owner's namespace is unknown: the owner counts as present.
            return Owner(reference, True)
        live = await self._read_live(resource, reference.name, item.namespace)
        return Owner(reference, live is not None and live.uid == reference.uid)

    async def _read_live(self, resource: Resource, name: str, namespace: str) -> Object | None:
        """What is found gets into its cache, so that its end marks what it owns: a watch that is broken until
        then would tell of neither."""
        cache = self._caches.get(f"{resource.group}/{resource.plural}")
        if cache is None:
            return await self.client.find(metadata_kind(resource), name, namespace)
        return await cache.read_live(name, namespace)

    def _resource_of(self, reference: OwnerReference) -> Resource | None:
        group = reference.api_version.rpartition("/")[0]
        return next((r for r in self._resources if (r.group, r.kind) == (group, reference.kind)), None)

    def _dependents(self, item: Object) -> Iterator[tuple[str, OwnerReference]]:
        for name, cache in self._caches.items():
            for dependent in cache.by_index("owner", item.uid):
                yield f"{name}:{dependent.key}", _reference_to(dependent, item.uid)

    async def _has_unseen_dependents(self, item: Object, *, all_kinds: bool) -> bool:
        """Whether objects name it as their owner that the caches do not show: of kinds that could not be
        listed yet; or of any, as caches may be late, where what is not released before its owner goes is
        deleted after it. Raises if that cannot be told."""
        if self._unknown:
            raise KindsNotKnown(self._unknown)
        found = False
        for resource in (each for each in self._resources if each.plural not in LEFT_OUT):
            if item.namespace and not resource.namespaced:
                continue
            if not all_kinds and self._caches[f"{resource.group}/{resource.plural}"].is_synced:
                continue
            for each in await self._held(resource, item.namespace):
                if item.uid in _owner_uids(each):
                    self._caches[f"{resource.group}/{resource.plural}"].accept(each)
                    found = True
        return found

    async def _release_dependents(self, item: Object) -> None:
        async def release(dependent: Object) -> None:
            kept = [each for each in dependent.metadata.owner_references if each.uid != item.uid]
            await self._patch(dependent, {"ownerReferences": msgspec.to_builtins(kept)})

        caches = self._caches.values()
        await one_by_one([each for cache in caches for each in cache.by_index("owner", item.uid)], release)

    async def _delete(self, kind: type[Object], item: Object, *, foreground: bool) -> None:
        await self.client.delete(
            kind,
            item.name,
            item.namespace,
            uid=item.uid,
            resource_version=item.metadata.resource_version,
            propagation_policy="Foreground" if foreground else "Background",
        )

    async def _patch(self, item: Object, metadata: dict[str, Any]) -> None:
        self.cache(type(item)).accept(await self.client.revise(item, {"metadata": metadata}))

    # --- namespaces

    async def _reconcile_namespace(self, namespace: Namespace | None) -> None:
        if namespace is None or not namespace.deleting:
            return
        left: list[Left] = []
        try:
            await self._empty(namespace, left)
        except ApiError:
            if left:
                await self._tell(namespace, left)
            raise
        if left:
            await self._tell(namespace, left)
            # deletions mark the namespace again; kinds that are not watched need the backoff
            raise NamespaceNotEmpty(namespace.name, [f"{kind.kind} {each.name}" for kind, each in left])
        if self._unknown:
            await self._tell(namespace, left)
            raise KindsNotKnown(self._unknown)
        if (live := await self._live(namespace)) is None:
            return
        finalizers = [each for each in live["spec"].get("finalizers") or () if each != "kubernetes"]
        live["spec"]["finalizers"] = finalizers
        path = namespace.RESOURCE.path(None, namespace.name, "finalize")
        await self.client.request("PUT", path, body=live)
        self.log.info("namespace deleted", namespace=namespace.name)

    async def _live(self, namespace: Namespace) -> dict[str, Any] | None:
        """The namespace as the API server has it now; None if it is gone, and perhaps another has its name:
        a cache that is late would have all that is in that one deleted. What was listed before is this
        one's."""
        path = namespace.RESOURCE.path(None, namespace.name)
        try:
            live = msgspec.json.decode(await self.client.request("GET", path))
        except NotFound:
            return None
        return live if live["metadata"]["uid"] == namespace.uid else None

    async def _empty(self, namespace: Namespace, left: list[Left]) -> None:
        """Deletes what is in the namespace; adds what is still there to `left`. What is refused of one
        object, or of one kind (its API server does not answer), keeps no other from being deleted."""
        kinds = (each for each in self._resources if each.namespaced)
        await one_by_one(kinds, lambda kind: self._empty_of(kind, namespace, left))

    async def _empty_of(self, resource: Resource, namespace: Namespace, left: list[Left]) -> None:
        """Nothing is done, or left, if the namespace is gone."""
        items = await self._held(resource, namespace.name)
        kept = [each for each in items if not each.deleting]
        if kept and await self._live(namespace) is None:
            return
        kind = metadata_kind(resource)
        try:
            await one_by_one(kept, lambda item: self._delete(kind, item, foreground=False))
        except ApiError:
            left += [(resource, each) for each in items]
            raise
        left += [(resource, each) for each in (await self._held(resource, namespace.name) if kept else items)]

    async def _held(self, resource: Resource, namespace: str) -> Sequence[Object]:
        """What there is of the kind; nothing if that has just gone."""
        try:
            return (await self.client.list(metadata_kind(resource), namespace)).items
        except NotFound:
            return ()

    async def _tell(self, namespace: Namespace, left: Sequence[Left]) -> None:
        """Writes what is left into the namespace's conditions."""
        pods = any((kind.group, kind.plural) == ("", "pods") for kind, _ in left)
        silent = await self._silent(namespace.name) if pods else {}
        written = conditions(left, silent, namespace.status.conditions, self.now(), self._unknown)
        if written:
            body = {"status": {"conditions": written}}
            told = await self.client.revise(namespace, body, subresource="status", strategy="strategic")
            self._namespaces.accept(told, tell=False)

    async def _silent(self, namespace: str) -> dict[str, list[str]]:
        """Nodes that do not answer, and the namespace's pods that are being deleted there."""
        found: dict[str, list[str]] = {}
        for pod in (await self.client.list(Pod, namespace)).items:
            if pod.deleting and pod.spec.node_name:
                found.setdefault(pod.spec.node_name, []).append(pod.name)
        nodes = {name: await self.client.find(Node, name) for name in found}
        return {
            name: pods
            for name, pods in found.items()
            if (node := nodes[name]) is None or node.ready == "Unknown"
        }


def _owner_uids(item: Object) -> list[str]:
    return [reference.uid for reference in item.metadata.owner_references]


def _reference_to(dependent: Object, uid: str) -> OwnerReference:
    return next(each for each in dependent.metadata.owner_references if each.uid == uid)
