"""What a pod shows about its volumes: events, and the reason for which it still waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator

from mooring.kube.events import EventType
from mooring.kube.objects import Pod
from mooring.kube.reason import Reason
from mooring.node.volumes.decide import Action, Decision
from mooring.node.volumes.volume import WAITING, Want, WantedVolume

WAIT_EVENT_S = 123.0
"""How long a pod waits for an attach before an event says so (upstream: podAttachAndMountTimeout)."""

Report = Callable[[Pod, EventType, str, str], None]
"""Takes a pod, and the type, reason and message of an event."""


class PodReports:
    """`pod_changed(uid)` is called for each pod about which something new is known; `look_again(volume,
    seconds)` when a pod still waits and its event is due again."""

    def __init__(
        self, report: Report, pod_changed: Callable[[str], None], look_again: Callable[[str, float], None]
    ) -> None:
        self._report = report
        self._pod_changed = pod_changed
        self._look_again = look_again

    def waiting(self, volume: WantedVolume, decision: Decision, message: str) -> None:
        """Not spammed: one event after a long time, and again after as long."""
        now = asyncio.get_running_loop().time()
        for want in _wants(volume, decision.pods):
            want.problem = Reason(decision.reason.code, message)
            if (
                want.since + WAIT_EVENT_S <= now
            ):  # in the very terms of the timer below: or it fires again and again
                want.since = now
                self._say(
                    want, "Warning", "FailedMount", f": not mounted after {WAIT_EVENT_S:.0f} s: {message}"
                )
            self._look_again(volume.record.unique_name, want.since + WAIT_EVENT_S - now)
            self._pod_changed(want.pod.uid)

    def failed(self, volume: WantedVolume, decision: Decision, error: Exception) -> None:
        """The decision was tried, and will be again."""
        reason = "FileSystemResizeFailed" if decision.action is Action.GROW else "FailedMount"
        for want in _wants(volume, decision.pods):
            want.problem = Reason(reason, str(error))
            self._say(want, "Warning", reason, f": {error}")
            self._pod_changed(want.pod.uid)

    def over(self, volume: WantedVolume, pod_uid: str) -> None:
        """What kept the pod waiting for the volume: should that be lost, it is for another reason."""
        for want in _wants(volume, (pod_uid,)):
            want.problem = WAITING

    def grown(self, volume: WantedVolume, pods: Iterable[str], size: str) -> None:
        """Its file system is larger."""
        for want in _wants(volume, pods):
            self._say(want, "Normal", "FileSystemResizeSuccessful", f": file system has grown to {size}")

    def lost(self, volume: WantedVolume, decision: Decision, node_name: str) -> None:
        """It was taken from this node: the pods must end."""
        for want in _wants(volume, decision.pods):
            text = (
                f" was taken from node {node_name}: {decision.reason.message}; the pod's processes are ended"
            )
            self._say(want, "Warning", "VolumeLost", text)
        for pod_uid in sorted(decision.pods):
            self._pod_changed(pod_uid)

    def _say(self, want: Want, kind: EventType, reason: str, text: str) -> None:
        self._report(want.pod, kind, reason, f"volume {', '.join(want.names)}{text}")


def _wants(volume: WantedVolume, pods: Iterable[str]) -> Iterator[Want]:
    for pod_uid in sorted(pods):
        want = volume.wants.get(pod_uid)
        if want is not None:
            yield want
