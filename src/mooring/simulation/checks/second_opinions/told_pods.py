"""What pods are told of their volumes: docs/nodes.md, and upstream's events of pods.

A pod that waits says for what: for what has failed last, in its words, or for what has not happened yet; one
that has its volume waits for nothing. An event says that a file system has grown when it has, and to which
size.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from mooring.kube.errors import ServerError, Unreachable
from mooring.kube.workqueue import WorkQueue
from mooring.node.volumes.decide import Action, Decision, Presence
from mooring.node.volumes.handshake import NotAttachedYet
from mooring.node.volumes.manager import VolumeManager
from mooring.node.volumes.node_volumes import NodeVolumes
from mooring.node.volumes.operations import Operations
from mooring.node.volumes.orphans import OrphanedVolume
from mooring.node.volumes.pod_reports import PodReports
from mooring.node.volumes.volume import PodOperation, WantedVolume
from mooring.simulation.checks.second_opinions.memories import Memories, now
from mooring.simulation.checks.second_opinions.question import Question

NOT_ABOUT_IT = (NotAttachedYet, Unreachable, ServerError)
"""What an API server says that is away, or that shows no attachment yet."""
SOON_S = 1.0 + 1e-6


class Said:
    """Of one volume: the step that has failed last, and why; the size that it has grown to, and what is said
    of that."""

    def __init__(self) -> None:
        self.failed: tuple[Decision, Exception] | None = None
        self.size: str | None = None
        self.told: str | None = None
        self.changed: set[str] = set()
        """Pods for which something has changed since what is under way for them began."""


_SAID: Memories[Said] = Memories(Said)


def _known(asked: VolumeManager) -> NodeVolumes:
    return vars(asked)["_known"]


def step_taken(
    answer: bool | Exception, asked: VolumeManager, volume: WantedVolume, decision: Decision
) -> Iterator[str]:
    """What waits for an attach says so; of what fails is told when the step is over."""
    said = _SAID.of(volume)
    said.failed = (decision, answer) if isinstance(answer, Exception) else None
    if decision.action is Action.WAIT_FOR_ATTACH and said.failed is None:
        yield from _wait(volume, decision.pods, decision.reason.message)


def reconciled(answer: Exception | None, asked: VolumeManager, unique_name: str) -> Iterator[str]:
    """Pods for which a step has failed wait for it; what was not about the volume is looked at again soon."""
    volume = _known(asked).volumes.get(unique_name)
    if volume is None:
        return
    said = _SAID.of(volume)
    failed, said.failed = said.failed, None
    if failed is None or isinstance(failed[1], OrphanedVolume):
        return
    yield from _wait(volume, failed[0].pods, str(failed[1]))
    if isinstance(failed[1], NOT_ABOUT_IT) and not _is_looked_at_soon(asked, unique_name):
        yield f"{unique_name} is not looked at again: {failed[1]}"


def _is_looked_at_soon(asked: VolumeManager, unique_name: str) -> bool:
    queue: WorkQueue[str] = vars(asked)["_queue"]
    timers: Mapping[str, tuple[float, object]] = vars(queue)["_timers"]
    if not queue.is_delayed(unique_name):
        return unique_name in vars(queue)["_dirty"]
    return timers[unique_name][0] <= now() + SOON_S


def failed_for_pod(
    answer: None,
    asked: VolumeManager,
    volume: WantedVolume,
    pod_uid: str,
    operation: PodOperation,
    error: Exception,
) -> Iterator[str]:
    """The pod waits for that, and it is tried again: at once only if something has changed meanwhile."""
    if not isinstance(error, OrphanedVolume):
        yield from _wait(volume, (pod_uid,), str(error))
    rests, changed = operation.again_at > now(), pod_uid in _SAID.of(volume).changed
    if operation.under_way or rests is changed:
        yield f"{volume.record.unique_name} has failed for pod {pod_uid}, and rests: {rests}; changed: {changed}"


def changed(answer: None, asked: WantedVolume, pod_uid: str) -> tuple[()]:
    """It may be that what is under way has not seen it."""
    last = asked.operations.get(pod_uid)
    if last is not None and last.under_way:
        _SAID.of(asked).changed.add(pod_uid)
    return ()


def operated(answer: None, asked: VolumeManager, key: tuple[str, str]) -> Iterator[str]:
    """What is over is under way no more; a pod that has its volume waits for nothing."""
    unique_name, pod_uid = key
    volume = _known(asked).volumes.get(unique_name)
    if volume is None:
        return
    _SAID.of(volume).changed.discard(pod_uid)
    want, last = volume.wants.get(pod_uid), volume.operations.get(pod_uid)
    if last is not None and last.under_way:
        yield f"{unique_name}: {last.action} for pod {pod_uid} is over, and under way"
    has_it = volume.pods.get(pod_uid) is Presence.PRESENT and last is None
    if has_it and want is not None and want.problem.code != "Mounting":
        yield f"{unique_name} is set up for pod {pod_uid}, which waits for {want.problem}"


def _wait(volume: WantedVolume, pods: Iterable[str], message: str) -> Iterator[str]:
    for pod_uid in sorted(pods):
        want = volume.wants.get(pod_uid)
        if want is not None and want.problem.message != message:
            name = volume.record.unique_name
            yield f"pod {pod_uid} waits for {name}: {message!r}, and says {want.problem.message!r}"


def grown(answer: str | None, asked: Operations, client: object, volume: WantedVolume) -> tuple[()]:
    """To which size it has grown, or None."""
    _SAID.of(volume).size = answer
    return ()


def growth_told(
    answer: None, asked: PodReports, volume: WantedVolume, pods: Iterable[str], size: str
) -> Iterator[str]:
    """Only what is so."""
    said = _SAID.of(volume)
    said.told = size
    if not size or size != said.size:
        yield f"{volume.record.unique_name} is said to have grown to {size}, and has to {said.size}"


def growth_over(
    answer: None, asked: VolumeManager, volume: WantedVolume, decision: Decision
) -> Iterator[str]:
    """What has grown is told."""
    said = _SAID.of(volume)
    if said.size is not None and said.told != said.size:
        yield f"{volume.record.unique_name} has grown to {said.size}, and no pod is told"
    said.size = said.told = None


QUESTIONS = (
    Question(VolumeManager, "_take", step_taken, refusals=(Exception,)),
    Question(VolumeManager, "_reconcile", reconciled, refusals=(Exception,)),
    Question(VolumeManager, "_failed", failed_for_pod),
    Question(VolumeManager, "_operate", operated),
    Question(WantedVolume, "rouse", changed),
    Question(Operations, "grow", grown),
    Question(PodReports, "grown", growth_told),
    Question(VolumeManager, "_grow", growth_over),
)
