"""What a node agent does next with a volume: docs/protocol.md "Mount", and upstream's volume manager.

Letting go comes before handing out. What is uncertain counts as mounted for all that lets go, and as not
mounted for all that hands out.
"""

from __future__ import annotations

from collections.abc import Iterator

from mooring.kube.objects import Node, VolumeAttachment
from mooring.node.volumes import handshake, manager
from mooring.node.volumes.decide import Action, Decision, Presence, VolumeState
from mooring.simulation.checks.second_opinions import near_node_volumes as near
from mooring.simulation.checks.second_opinions.question import Question
from mooring.simulation.checks.second_opinions.releasing import is_not_machine
from mooring.volumes.names import DETACHING, NODE_MACHINE

Step = tuple[Action, str, frozenset[str]]
"""What to do, the code of its reason, and the pods that it is for."""
NO_PODS: frozenset[str] = frozenset()


def next_step(answer: Decision, volume: VolumeState) -> Iterator[str]:
    """The first of the steps that are due."""
    got = (answer.action, answer.reason.code, answer.pods)
    due = next(_due(volume), (Action.SETTLED, "Settled", NO_PODS))
    if got != due:
        yield f"{_named(got)}, and not {_named(due)}, of {volume}"


def _due(volume: VolumeState) -> Iterator[Step]:
    there = frozenset([pod for pod, presence in volume.pods.items() if presence is not Presence.ABSENT])
    if unwanted := there - volume.wanted_by:
        yield from _for_pods(volume, Action.TEAR_DOWN, "NotWanted", unwanted)
    if volume.stale and not there <= unwanted:
        yield Action.END_PODS, "StaleMount", there - unwanted
    if not there and not volume.under_way:
        yield from _of_the_device(volume)
    if not volume.stale:
        yield from _handed_out(volume)
        if volume.to_grow and volume.device is Presence.PRESENT and not volume.under_way:
            yield Action.GROW, "Resizing", volume.starting


def _of_the_device(volume: VolumeState) -> Iterator[Step]:
    """No pod has it. Its device goes before it leaves volumesInUse; while pods want it, only when its
    attachment is gone, or a detach has begun."""
    if volume.device is Presence.ABSENT:
        if not volume.wanted_by:
            yield Action.UNPUBLISH, "NotWanted", NO_PODS
        return
    unreported = volume.attachable and not volume.reported
    reasons = {"StaleMount": volume.stale, "NotWanted": not volume.wanted_by, "NotAttached": unreported}
    yield from ((Action.UNMOUNT_DEVICE, code, NO_PODS) for code, holds in reasons.items() if holds)


def _handed_out(volume: VolumeState) -> Iterator[Step]:
    """To pods that start, and have it not or not as it is now: published, attached, its device mounted, set
    up."""
    has = frozenset([pod for pod, presence in volume.pods.items() if presence is Presence.PRESENT])
    lacking = volume.starting - (has - volume.outdated)
    if volume.attachable and not volume.published and volume.wanted_by:
        yield Action.PUBLISH, "NotPublished", lacking
    if not lacking:
        return
    may_begin = list(_for_pods(volume, Action.SET_UP, "Mounting", lacking))
    for _, _, pods in may_begin:
        if volume.attachable and not volume.reported:
            yield Action.WAIT_FOR_ATTACH, "WaitingForAttach", pods
        elif not volume.has_device or volume.device is Presence.PRESENT:
            yield from may_begin
        elif not volume.under_way:
            yield Action.MOUNT_DEVICE, "Mounting", pods


def _for_pods(volume: VolumeState, action: Action, code: str, pods: frozenset[str]) -> Iterator[Step]:
    """An operation for a pod waits for another one of that pod, and for its own back-off; where the driver
    takes one call at a time, for those of all pods."""
    if volume.one_at_a_time and volume.under_way:
        return
    free = {pod for pod in pods if pod not in volume.under_way and volume.resting.get(pod) is not action}
    if free:
        yield action, code, frozenset({min(free)} if volume.one_at_a_time else free)


def _named(step: Step) -> str:
    return f"{step[0].value} ({step[1]}) for {sorted(step[2])}"


def hindrance(answer: str, record: VolumeAttachment, node: Node) -> Iterator[str]:
    """The live look permits a mount only under a VolumeAttachment that is attached, for this node and
    machine, and of which no detach has begun."""
    ends = record.metadata.deletion_timestamp is not None or DETACHING in record.metadata.annotations
    ours = record.spec.node_name == node.metadata.name
    same = not is_not_machine(node, record.metadata.annotations.get(NODE_MACHINE, ""))
    permitted = record.status.attached and not ends and ours and same
    if permitted != (answer == ""):
        yield f"VolumeAttachment {record.name}: {answer or 'a mount is permitted'}"


QUESTIONS = (
    Question(manager, "decide", next_step, near=near.STEPS),
    Question(handshake, "_problem", hindrance, near=near.LOOKS),
)
