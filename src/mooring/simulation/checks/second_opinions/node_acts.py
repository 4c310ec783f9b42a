"""What a node agent has made of news about its volumes: docs/protocol.md, "Mount", and docs/nodes.md.

A change of the Node, or of what a pod wants, has each volume looked at that it concerns. What
holds a device under an attachment that may be gone is verified before anything else is done to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mooring.kube.objects import Node, Pod
from mooring.node.volumes.manager import VolumeManager
from mooring.node.volumes.volume import WantedVolume
from mooring.simulation.checks.second_opinions.memories import now
from mooring.simulation.checks.second_opinions.question import Question
from mooring.simulation.checks.second_opinions.queues import is_brought_up
from mooring.volumes.names import VOLUMES_ATTACHED_WRITE
from mooring.volumes.spec import VolumeSpec

SOON_S = 1.0 + 1e-6


def looked_at(asked: VolumeManager, unique_name: str, seconds: float = 0.0) -> bool:
    """Whether the volume is worked on again: now, or by a timer in that time."""
    return is_brought_up(vars(asked)["_queue"], unique_name, seconds)


def volumes_of(asked: VolumeManager) -> Mapping[str, WantedVolume]:
    return vars(asked)["_known"].volumes


def wanted(answer: None, asked: VolumeManager, pod: Pod, specs: Mapping[str, VolumeSpec]) -> Iterator[str]:
    """All names that the pod has for a volume are one wish. It is mounted to be written if by any of them it
    is; what has failed for the pod is tried at once."""
    uid, operations = pod.metadata.uid, vars(asked)["_operations"]
    wishes = {name: volume.wants[uid] for name, volume in volumes_of(asked).items() if uid in volume.wants}
    named = sorted(each for want in wishes.values() for each in want.names)
    if not {*specs} <= {*named}:
        yield f"pod {pod.key} wants {sorted(specs)}, and {named} are known"
    for unique_name, want in wishes.items():
        if not specs.keys() >= {*want.names}:
            continue  # a wish of before
        readers = {each for each in want.names if operations.is_read_only(specs[each], pod)}
        written = {*want.names} - readers
        if {*want.read_only} != readers or (written and operations.is_read_only(want.spec, pod)):
            yield f"{unique_name}: of {want.names} {sorted(readers)} only read it, and not {sorted(want.read_only)}"
        last = volumes_of(asked)[unique_name].operations.get(uid)
        if not looked_at(asked, unique_name) or (last is not None and last.again_at > now()):
            yield f"{unique_name} is wanted by pod {pod.key}, and is not looked at"


def unverified(asked: VolumeManager, old: Node | None, new: Node | None) -> set[str]:
    return {name for name, each in volumes_of(asked).items() if each.unverified}


def node_has_changed(
    answer: None, before: set[str], asked: VolumeManager, old: Node | None, new: Node | None
) -> Iterator[str]:
    """A volume that is listed since, or not any more, is looked at. After an un-report of any volume (a list
    may hide that one was taken away and is there again), and when the Node is another one, all are; and what
    is held of each is verified."""
    was, is_ = _facts(old), _facts(new)
    unreported = was[:2] != is_[:2]
    for name, volume in volumes_of(asked).items():
        if (unreported or (name in was[2]) != (name in is_[2])) and not looked_at(asked, name):
            yield f"{name}: its Node was {was}, and is {is_}, and the volume is not looked at"
        concerned = _is_held(volume) and volume.record.attachable and not vars(asked)["_attaches"]
        due = name in before or (concerned and (unreported or name not in is_[2]))
        if volume.unverified is not due:
            yield f"{name}: its Node was {was}, and is {is_}; it is to be verified: {due}"


def _facts(node: Node | None) -> tuple[str | None, str | None, list[str]]:
    """Its uid, its last un-report, and what it lists as attached."""
    if node is None:
        return None, None, []
    listed = [each.name for each in node.status.volumes_attached]
    return node.metadata.uid, node.metadata.annotations.get(VOLUMES_ATTACHED_WRITE), listed


def _is_held(volume: WantedVolume) -> bool:
    at_work = volume.mounting or any(each.under_way for each in volume.operations.values())
    return at_work or volume.record.device is not None


def to_verify(asked: VolumeManager, volume: WantedVolume) -> bool:
    return volume.unverified and volume.record.device is not None


def verified(answer: None, before: bool, asked: VolumeManager, volume: WantedVolume) -> Iterator[str]:
    """It is, or that is tried again soon."""
    name = volume.record.unique_name
    if before and volume.unverified and not looked_at(asked, name, SOON_S):
        yield f"{name} was not verified, and that is not tried again"


QUESTIONS = (
    Question(VolumeManager, "want", wanted),
    Question(VolumeManager, "node_changed", node_has_changed, before=unverified),
    Question(VolumeManager, "_verify", verified, before=to_verify),
)
