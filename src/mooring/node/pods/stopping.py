"""Asks containers to end: the preStop hook first, if there is one, then its stop signal: SIGTERM, unless its
pod or its image names another one.

When SIGKILL follows is `ending`'s word; a hook that is under way when the grace period becomes shorter is
given up.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterable

import structlog

from mooring.kube.events import Recorder
from mooring.kube.objects import Container, Pod
from mooring.node.pods.ending import pre_stop
from mooring.node.pods.handlers import Target, handle
from mooring.node.runtime import Runtime, RuntimeFailure

log = structlog.get_logger("node-agent")


class Stopping:
    """All containers of one node that are being ended."""

    def __init__(self, runtime: Runtime, recorder: Recorder) -> None:
        self._runtime = runtime
        self._recorder = recorder
        self._hooks: dict[tuple[str, str], asyncio.Task[None]] = {}

    async def stop(self, uid: str, pod: Pod | None, name: str, address: str, grace_s: float) -> None:
        """Returns when the stop signal was sent, or at once if a hook comes first. Once for each attempt."""
        container = _find(pod, name)
        if pod is None or container is None or not pre_stop(container):
            await self._ask_to_end(uid, name)
        elif (uid, name) not in self._hooks:
            story = self._after_hook(pod, Target(uid, container, address), grace_s)
            task = self._hooks[uid, name] = asyncio.create_task(story, name=f"preStop of {pod.key}/{name}")
            task.add_done_callback(lambda done: self._hooks.pop((uid, name), None))

    async def hurry(self, uid: str) -> None:
        """Hooks of this pod are waited for no longer."""
        for (owner, name), task in list(self._hooks.items()):
            if owner == uid:
                task.cancel()
                await self._ask_to_end(uid, name)

    async def _ask_to_end(self, uid: str, name: str) -> None:
        sandbox = self._runtime.sandboxes().get(uid)
        record = sandbox.containers.get(name) if sandbox else None
        await self.signal(uid, name, record.stop_signal if record else signal.SIGTERM)

    async def signal(self, uid: str, name: str, number: int) -> None:
        """A signal that cannot be sent is logged: a deadline holds all the same."""
        try:
            await self._runtime.signal_container(uid, name, number)
        except RuntimeFailure as error:
            log.warning("container not signalled", pod_uid=uid, container=name, error=str(error))

    async def run(self) -> None:
        """Until cancelled; then no hook is waited for any more."""
        try:
            await asyncio.Event().wait()
        finally:
            _cancel(self._hooks.values())

    async def _after_hook(self, pod: Pod, target: Target, grace_s: float) -> None:
        name, lifecycle = target.container.name, target.container.lifecycle
        assert lifecycle is not None
        assert lifecycle.pre_stop is not None
        outcome = await handle(self._runtime, target, lifecycle.pre_stop, max(grace_s, 1.0))
        if not outcome.success:
            self._recorder.event(
                pod, "Warning", "FailedPreStopHook", f"PreStopHook of {name}: {outcome.output}"
            )
        await self._ask_to_end(target.pod_uid, name)


def _find(pod: Pod | None, name: str) -> Container | None:
    containers = (*pod.spec.init_containers, *pod.spec.containers) if pod else ()
    return next((container for container in containers if container.name == name), None)


def _cancel(tasks: Iterable[asyncio.Task[None]]) -> None:
    for task in list(tasks):
        task.cancel()
