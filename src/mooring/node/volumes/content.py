"""Follows the ConfigMaps and Secrets that mounted volumes show, and the claims of volumes that can grow: each
by its name, only while a pod uses it.

A node may read the objects of its own pods only, so there is no watch over all of them; and it may get
claims, but not watch them (upstream's Node authorizer), so these are looked at from time to time, as kubelets
do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

import structlog

from mooring.kube.client import Client
from mooring.kube.errors import KubeError
from mooring.kube.informer import Informer
from mooring.kube.objects import ConfigMap, Object, PersistentVolumeClaim, Pod, Secret, Volume
from mooring.kube.selectors import field_equals
from mooring.volumes.growth import is_asked_to_grow
from mooring.volumes.spec import VolumeSpec

CLAIM_PERIOD_S = 30.0
"""The shortest time between two looks at a claim, whether its file system is to grow."""

log = structlog.get_logger("node-agent")

_Source = tuple[type[Object], str, str]  # kind, namespace, name
_User = tuple[str, str]  # pod UID, unique volume name


def sources(pod: Pod, spec: VolumeSpec, grows: bool) -> list[_Source]:
    """The objects whose content the volume shows; of a volume that can grow, the claim."""
    if grows:
        return [_claim(spec)]
    volume = spec.volume or Volume()
    parts = volume.projected.sources if volume.projected is not None else ()
    config_maps = [volume.config_map, *(part.config_map for part in parts)]
    secrets = [volume.secret.secret_name] if volume.secret is not None else []
    secrets += [part.secret.name for part in parts if part.secret is not None]
    return [
        *((ConfigMap, pod.namespace, each.name) for each in config_maps if each is not None),
        *((Secret, pod.namespace, name) for name in secrets),
    ]


def _claim(spec: VolumeSpec) -> _Source:
    """That of a volume that can grow: it has one."""
    assert spec.persistent_volume is not None
    reference = spec.persistent_volume.spec.claim_ref
    assert reference is not None
    return PersistentVolumeClaim, reference.namespace, reference.name


class ContentWatches:
    """Who shows what. `changed(pod_uid, unique_name)` is called after each change, also when an object
    appears."""

    def __init__(self, client: Client, changed: Callable[[str, str], None], *, random: Random) -> None:
        self._client = client
        self._changed = changed
        self._random = random
        self._users: dict[_Source, dict[_User, None]] = {}  # in their order
        self._watches: dict[_Source, asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup | None = None

    def follow(self, pod: Pod, spec: VolumeSpec, unique_name: str, grows: bool) -> None:
        """The pod uses this volume."""
        for source in sources(pod, spec, grows):
            self._users.setdefault(source, {})[pod.uid, unique_name] = None
            self._begin(source)

    def unfollow(self, pod_uid: str, unique_name: str) -> None:
        """It does not any more."""
        for source, users in list(self._users.items()):
            users.pop((pod_uid, unique_name), None)
            if not users:
                del self._users[source]
                if source in self._watches:
                    self._watches.pop(source).cancel()

    async def run(self) -> None:
        """Runs the watches until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            for source in self._users:
                self._begin(source)
            await asyncio.Event().wait()

    def _begin(self, source: _Source) -> None:
        if self._group is not None and source not in self._watches:
            self._watches[source] = self._group.create_task(
                self._watch(source), name=f"watch {source[1]}/{source[2]}"
            )

    async def _watch(self, source: _Source) -> None:
        kind, namespace, name = source
        if kind is PersistentVolumeClaim:
            await self._look_at_claim(source)
            return
        informer = Informer(
            self._client,
            kind,
            random=self._random,
            namespace=namespace,
            field_selector=field_equals("metadata.name", name),
        )
        informer.add_handler(lambda old, new: self._notify(source))
        await informer.run()

    async def _look_at_claim(self, source: _Source) -> None:
        """Tells of a claim each time that it asks for a larger file system."""
        while True:
            await asyncio.sleep(CLAIM_PERIOD_S * (0.75 + self._random.random() / 2))
            try:
                claim = await self._client.find(PersistentVolumeClaim, source[2], source[1])
            except KubeError as error:
                log.debug("claim not read", claim=f"{source[1]}/{source[2]}", error=str(error))
                continue
            if claim is not None and is_asked_to_grow(claim):
                self._notify(source)

    def _notify(self, source: _Source) -> None:
        for user in list(self._users.get(source, ())):
            self._changed(*user)
