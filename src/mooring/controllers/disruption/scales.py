"""How many pods the controllers of some pods want: of any kind that has the subresource scale."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from mooring.controllers.disruption.decide import Scale
from mooring.kube.client import Client
from mooring.kube.errors import NotFound
from mooring.kube.informer import Informer
from mooring.kube.objects import (
    Deployment,
    OwnerReference,
    Pod,
    ReplicaSet,
    ReplicationController,
    Resource,
    StatefulSet,
)
from mooring.kube.objects.meta import version_path

Known = ReplicaSet | StatefulSet | ReplicationController | Deployment


class NoScale(Exception):
    """A pod's controller is of a kind that does not say how many pods it wants; the message names both."""


class _Entry(msgspec.Struct, frozen=True):
    name: str
    kind: str
    namespaced: bool = True


class _Entries(msgspec.Struct, frozen=True):
    resources: tuple[_Entry, ...] = ()


class _Replicas(msgspec.Struct, frozen=True):
    replicas: int = 0


class _Uid(msgspec.Struct, frozen=True):
    uid: str = ""


class _Scale(msgspec.Struct, frozen=True):
    metadata: _Uid = _Uid()
    spec: _Replicas = _Replicas()


class Scales:
    """Finds the scales of pods' controllers: Kubernetes' own kinds in caches, others by their subresource."""

    def __init__(self, client: Client, caches: Iterable[Informer[Known]]) -> None:
        self._client = client
        self._caches = {cache.kind.RESOURCE.kind: cache for cache in caches}

    async def of(self, pods: Iterable[Pod]) -> list[Scale]:
        """Returns each controller's scale once. Pods without a controller are left out.

        Raises NoScale if a pod's controller is gone or has no scale, and ApiError."""
        found: dict[str, Scale] = {}
        for pod in pods:
            owner = pod.controller
            if owner is not None and owner.uid not in found:
                scale = await self._scale(owner, pod.namespace)
                if scale is None:
                    raise NoScale(f'found no controllers for pod "{pod.name}"')
                found[owner.uid] = scale
        return list({scale.uid: scale for scale in found.values()}.values())

    async def _scale(self, owner: OwnerReference, namespace: str) -> Scale | None:
        known = self._known(owner, namespace)
        if known is None and owner.kind not in self._caches:
            return await self._by_subresource(owner, namespace)
        if isinstance(known, ReplicaSet) and known.controller is not None:
            return await self._scale(known.controller, namespace)
        return None if known is None else Scale(known.uid, known.spec.replicas)

    def _known(self, owner: OwnerReference, namespace: str) -> Known | None:
        cache = self._caches.get(owner.kind)
        found = cache.get(f"{namespace}/{owner.name}") if cache is not None else None
        return found if found is not None and found.uid == owner.uid else None

    async def _by_subresource(self, owner: OwnerReference, namespace: str) -> Scale | None:
        resource = await self._resource(owner)
        try:
            scale = await self._client.ask(_Scale, "GET", resource.path(namespace, owner.name, "scale"))
        except NotFound:
            return None
        return Scale(scale.metadata.uid, scale.spec.replicas) if scale.metadata.uid == owner.uid else None

    async def _resource(self, owner: OwnerReference) -> Resource:
        group, _, version = owner.api_version.rpartition("/")
        try:
            entries = (await self._client.ask(_Entries, "GET", version_path(group, version))).resources
        except NotFound:
            raise NoScale(f'no matches for kind "{owner.kind}" in version "{owner.api_version}"') from None
        names = {each.name for each in entries}
        kind = next((each for each in entries if each.kind == owner.kind and "/" not in each.name), None)
        if kind is None or f"{kind.name}/scale" not in names:
            plural = f"{kind.name}.{group}".rstrip(".") if kind is not None else owner.kind
            raise NoScale(f"{plural} does not implement the scale subresource")
        return Resource(group, version, kind.name, owner.kind, kind.namespaced)
