"""The static pods of this node: kept as the folder says; the kernel reports its changes.

A pod whose manifest is gone or has changed is deleted with its grace period; another one takes its name
only when it is gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import structlog

from mooring.kube.objects import Pod
from mooring.kube.objects.pods import PodStatus
from mooring.kube.times import Now, format_time
from mooring.node.inotify import (
    IN_CLOSE_WRITE,
    IN_DELETE,
    IN_MOVED_FROM,
    IN_MOVED_TO,
    Inotify,
    WatchFolders,
    watching,
)
from mooring.node.static.manifests import StaticPod, read_folder

log = structlog.get_logger("node-agent")

Handler = Callable[[StaticPod], None]


class StaticPods:
    """The pods of `folder`; None: there are none. Handlers are called with each that has changed."""

    def __init__(
        self, folder: Path | None, node_name: str, now: Now, *, watch: WatchFolders = Inotify
    ) -> None:
        self._folder = folder
        self._node_name = node_name
        self._now = now
        self._watch = watch
        self._pods: dict[str, StaticPod] = {}  # by key
        self._handlers: list[Handler] = []
        self._problems: set[str] = set()
        """What is logged already of files that cannot be read."""

    def add_handler(self, handler: Handler) -> None:
        """From now on."""
        self._handlers.append(handler)

    def items(self) -> list[StaticPod]:
        """All of them, also those that are being deleted."""
        return list(self._pods.values())

    def by_key(self, key: str) -> StaticPod | None:
        """By "namespace/name"."""
        return self._pods.get(key)

    def by_uid(self, uid: str) -> StaticPod | None:
        """By the hash of the manifest."""
        return next((each for each in self._pods.values() if each.pod.uid == uid), None)

    def note_status(self, uid: str, status: Mapping[str, Any]) -> None:
        """The pod's status as it is now: it is what its next status is computed from."""
        held = self.by_uid(uid)
        if held is None:
            return
        noted = self._put(held, status=msgspec.convert(status, PodStatus))
        if noted.pod.finished and not held.pod.finished:
            self._notify(noted)  # what waited for its last phase may go on

    def removed(self, uid: str) -> None:
        """The pod is gone from this node: its name is free."""
        held = self.by_uid(uid)
        if held is not None:
            del self._pods[held.pod.key]
            self._notify(held)
            self.reload()

    def reload(self) -> None:
        """Reads the folder. A file that cannot be read is logged; its pod ends."""
        if self._folder is None:
            return
        wanted, problems = read_folder(self._folder, self._node_name)
        for problem in map(str, problems):
            if problem not in self._problems:
                log.error("manifest refused", error=problem)
        self._problems = set(map(str, problems))
        for key, held in list(self._pods.items()):
            if (wanted[key].hash if key in wanted else None) != held.hash and not held.pod.deleting:
                self._delete(held)
        for key, new in wanted.items():
            if key not in self._pods:
                self._pods[key] = new
                log.info("static pod", pod=key, pod_uid=new.pod.uid)
                self._notify(new)

    async def run(self) -> None:
        """Follows the folder until cancelled."""
        if self._folder is None:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        mask = IN_CLOSE_WRITE | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE
        while True:
            with watching(self._watch, self._folder, mask, self.reload) as seconds:
                self.reload()
                await asyncio.sleep(seconds)

    def _delete(self, held: StaticPod) -> None:
        grace = held.pod.spec.termination_grace_period_seconds
        metadata = msgspec.structs.replace(
            held.pod.metadata,
            deletion_timestamp=format_time(self._now()),
            deletion_grace_period_seconds=grace,
        )
        self._notify(self._put(held, metadata=metadata))

    def _put(self, held: StaticPod, **changes: Any) -> StaticPod:
        new = self._pods[held.pod.key] = StaticPod(_replace(held.pod, changes), held.body)
        return new

    def _notify(self, changed: StaticPod) -> None:
        for handler in self._handlers:
            handler(changed)


def _replace(pod: Pod, changes: dict[str, Any]) -> Pod:
    return msgspec.structs.replace(pod, **changes)
