"""The pods that this node is to run: those that the API binds to it, and the static ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from mooring.kube.informer import Informer
from mooring.kube.objects import Pod
from mooring.node.static.manifests import StaticPod
from mooring.node.static.mirrors import Mirrors, is_mirror
from mooring.node.static.pods import StaticPods


class PodSource:
    """`informer` has the API's pods of this node, with an index "uid"."""

    def __init__(self, informer: Informer[Pod], static: StaticPods, mirrors: Mirrors) -> None:
        self._informer = informer
        self._static = static
        self._mirrors = mirrors

    def add_handler(self, changed: Callable[[str], None]) -> None:
        """Calls `changed(uid)` after each change of a pod, or of what shows it."""

        def pod_changed(old: Pod | None, new: Pod | None) -> None:
            for pod in (old, new):
                if pod is not None:
                    shown = self._static.by_key(pod.key) if is_mirror(pod) else None
                    changed(shown.pod.uid if shown else pod.uid)

        def static_changed(static: StaticPod) -> None:
            changed(static.pod.uid)

        self._informer.add_handler(pod_changed)
        self._static.add_handler(static_changed)

    def items(self) -> list[Pod]:
        """All of them."""
        return [
            *(pod for pod in self._informer.items() if not is_mirror(pod)),
            *(s.pod for s in self._static.items()),
        ]

    def find(self, uid: str) -> Pod | None:
        """The pod of that uid."""
        static = self._static.by_uid(uid)
        if static is not None:
            return self._as_shown(static.pod)
        return next((pod for pod in self._informer.by_index("uid", uid) if not is_mirror(pod)), None)

    def _as_shown(self, pod: Pod) -> Pod:
        """A static pod goes on from the status that its mirror shows, if this agent has written none yet."""
        shown = self._mirrors.mirror_of(pod)
        if pod.status.phase or shown is None:
            return pod
        return msgspec.structs.replace(pod, status=shown.status)

    def named(self, namespace: str, name: str) -> Pod | None:
        """The pod of that name."""
        key = f"{namespace}/{name}"
        static = self._static.by_key(key)
        return static.pod if static else self._informer.get(key)

    def in_api(self, pod: Pod) -> Pod | None:
        """The object that shows the pod in the API; None while there is none."""
        return self._mirrors.mirror_of(pod) if self.is_static(pod) else pod

    def is_static(self, pod: Pod) -> bool:
        return self._static.by_uid(pod.uid) is not None

    def note_status(self, pod: Pod, status: Mapping[str, Any]) -> None:
        """Keeps the status of a static pod: no other part does."""
        self._static.note_status(pod.uid, status)

    def accept(self, written: Pod) -> None:
        """The API's answer to a write."""
        self._informer.accept(written)

    def removed(self, pod: Pod) -> None:
        """Of a static pod: nothing of it is left on this node."""
        self._static.removed(pod.uid)
