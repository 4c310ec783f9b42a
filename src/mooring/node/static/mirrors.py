"""Shows static pods in the API: for each a mirror pod, which says how it is. What is done to a mirror changes
nothing: one that is deleted is made anew, and the pod runs on. A mirror belongs to the Node: the API server
takes no other from a node.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, assert_never

import structlog

from mooring.kube.client import Client
from mooring.kube.errors import AlreadyExists, Forbidden, NotFound
from mooring.kube.informer import Informer
from mooring.kube.objects import Node, Pod
from mooring.kube.workqueue import WorkQueue
from mooring.node.static.manifests import MIRROR, StaticPod
from mooring.node.static.pods import StaticPods

NODE_AWAITED_S = 1.0

log = structlog.get_logger("node-agent")


class MirrorAction(Enum):
    """What a mirror needs."""

    NOTHING = "nothing"
    CREATE = "create"
    DELETE = "delete"


def is_mirror(pod: Pod) -> bool:
    """Whether the pod only shows a static one."""
    return MIRROR in pod.metadata.annotations


def shows(mirror: Pod, static: StaticPod) -> bool:
    """Whether it is the mirror of this pod, and not of an earlier life of the same manifest, which has
    ended."""
    same = mirror.metadata.annotations.get(MIRROR) == static.hash
    return same and (static.pod.finished or not mirror.finished)


def decide(static: StaticPod | None, mirror: Pod | None) -> MirrorAction:
    """What is to be done about the mirror of one name."""
    if mirror is not None:
        current = static is not None and shows(mirror, static)
        return MirrorAction.NOTHING if current and not mirror.deleting else MirrorAction.DELETE
    return MirrorAction.CREATE if static is not None and not static.pod.deleting else MirrorAction.NOTHING


class Mirrors:
    """The mirrors of this node. `pods` are the API's pods of this node, `node` is the Node as it is known
    now."""

    def __init__(
        self, client: Client, static: StaticPods, pods: Informer[Pod], node: Callable[[], Node | None]
    ) -> None:
        self._node = node
        self._client = client
        self._static = static
        self._pods = pods
        self._queue: WorkQueue[str] = WorkQueue()
        static.add_handler(lambda changed: self._queue.add(changed.pod.key))
        pods.add_handler(self._pod_changed)

    def mirror_of(self, pod: Pod) -> Pod | None:
        """The mirror of a static pod, if it is there and shows this one."""
        mirror, static = self._pods.get(pod.key), self._static.by_uid(pod.uid)
        return mirror if mirror is not None and static is not None and shows(mirror, static) else None

    async def run(self) -> None:
        """Works until cancelled. Only after the first list of pods."""
        for pod in (*self._pods.items(), *(each.pod for each in self._static.items())):
            self._queue.add(pod.key)
        await self._queue.run(1, self._reconcile)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        for pod in (old, new):
            if pod is not None and is_mirror(pod):
                self._queue.add(pod.key)

    async def _reconcile(self, key: str) -> None:
        static, shown = self._static.by_key(key), self._pods.get(key)
        mirror = shown if shown is not None and is_mirror(shown) else None
        match decide(static, mirror):
            case MirrorAction.CREATE:
                assert static is not None
                await self._create(static)
            case MirrorAction.DELETE:
                assert mirror is not None
                try:
                    await self._client.delete(
                        Pod, mirror.name, mirror.namespace, uid=mirror.uid, grace_period_seconds=0
                    )
                except NotFound:
                    log.debug("mirror was gone already", pod=key)
            case MirrorAction.NOTHING:
                return
            case _ as never:
                assert_never(never)

    async def _create(self, static: StaticPod) -> None:
        key, node = static.pod.key, self._node()
        if node is None:
            self._queue.add_after(key, NODE_AWAITED_S)
            return
        try:
            self._pods.accept(await self._client.create(Pod, owned(static.body, node), static.pod.namespace))
        except AlreadyExists:
            await self._warn_of_another(static)

    async def _warn_of_another(self, static: StaticPod) -> None:
        """Another pod has the name, unless it is a mirror that this cache has not seen yet."""
        try:
            found = await self._client.get(Pod, static.pod.name, static.pod.namespace)
        except (Forbidden, NotFound):  # it is of another node, or of none
            found = None
        if found is None or not is_mirror(found):
            log.error("static pod not shown: another pod has its name", pod=static.pod.key)


def owned(body: dict[str, Any], node: Node) -> dict[str, Any]:
    """A mirror's body with the Node as its owner, so that the mirror goes when the Node does."""
    owner = {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.uid, "controller": True}
    return {**body, "metadata": {**body["metadata"], "ownerReferences": [owner]}}
