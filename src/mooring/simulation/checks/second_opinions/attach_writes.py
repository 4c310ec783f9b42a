"""What the attach/detach controller writes: `volumesAttached`, VolumeAttachments and locks
(docs/protocol.md)."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from mooring.controllers.attachdetach import attached_lists, locks
from mooring.controllers.attachdetach import controller as attachdetach
from mooring.controllers.attachdetach.attached_lists import AttachedLists
from mooring.controllers.attachdetach.handshake import Handshake
from mooring.controllers.attachdetach.locks import Locks
from mooring.controllers.attachdetach.state import Attachment, NodeState
from mooring.controllers.attacher import controller as attacher
from mooring.kube.informer import Informer
from mooring.kube.objects import Node, PersistentVolume, VolumeAttachment
from mooring.node.volumes import handshake as on_node
from mooring.simulation.checks.second_opinions.attach_states import lock, lock_said
from mooring.simulation.checks.second_opinions.question import Question
from mooring.simulation.checks.second_opinions.releasing import is_not_machine, is_of_its_registration
from mooring.volumes import names
from mooring.volumes.attachment_lock import ATTACHED_TO, Closed, Lock
from mooring.volumes.errors import InvalidSpec
from mooring.volumes.spec import VolumeSpec

# --- volumesAttached


def listed(
    answer: list[dict[str, str]],
    node: Node,
    usable: Mapping[str, str],
    ours: Iterable[str],
    without: Iterable[str] = (),
) -> Iterator[str]:
    """Derived from the VolumeAttachments: what is usable, and what other controllers have listed there;
    nothing that is being un-reported."""
    paths = {each["name"]: each["devicePath"] for each in answer}
    if [*paths] != sorted({each["name"] for each in answer}) or len(paths) != len(answer):
        yield f"of {node.name}: the list has no order, or a volume twice: {answer}"
    gone, ours = set(without), set(ours)
    others = {each.name: each.device_path for each in node.status.volumes_attached if each.name not in ours}
    expected = {name: path for name, path in (others | dict(usable)).items() if name not in gone}
    if paths != expected:
        yield f"of {node.name}: {paths} is to be listed, and not {expected}"


def stays_listed(
    answer: dict[str, str], asked: AttachedLists, node: Node, listed: Container[str]
) -> Iterator[str]:
    """An entry stays while its VolumeAttachment there is attached, not marked, not being deleted, and not
    another machine's."""
    records: Informer[VolumeAttachment] = vars(asked)["_records"]
    named = vars(asked)["_named"]
    staying: dict[str, str] = {}
    for each in records.by_index("node", node.name):
        volume = named(each, node)
        if volume in listed and _is_usable(each) and not is_not_machine(node, _machine(each)):
            staying[volume] = each.status.attachment_metadata.get("devicePath", "")
    if staying != answer:
        yield f"of {node.name}: {answer} stays listed, and not {staying}"


def _is_usable(record: VolumeAttachment) -> bool:
    ends = record.metadata.deletion_timestamp is not None or names.DETACHING in record.metadata.annotations
    return record.status.attached and not ends


def _machine(record: VolumeAttachment) -> str:
    return record.metadata.annotations.get(names.NODE_MACHINE, "")


def usable(answer: bool, record: VolumeAttachment) -> Iterator[str]:
    """Only what is attached, and of which no detach has begun, is reported."""
    if answer != _is_usable(record):
        yield f"VolumeAttachment {record.name} counts as {'' if answer else 'not '}usable"


def for_this_node(answer: bool, node: NodeState, held: Attachment) -> Iterator[str]:
    """Only for the Node that the VolumeAttachment was made for (C13)."""
    if answer != is_of_its_registration(node, held):
        yield f"VolumeAttachment {held.name} counts as {'' if answer else 'not '}made for Node {node.uid}"


def new_enough(answer: bool, asked: AttachedLists, node: Node) -> Iterator[str]:
    """A cache of VolumeAttachments does in place of a live read only if one store counts both kinds, and it
    has got as far as the Node (R3)."""
    records: Informer[VolumeAttachment] = vars(asked)["_records"]
    lags = records.version < int(node.metadata.resource_version)
    if answer and (lags or not asked.versions_comparable):
        yield f"a cache of {records.version} does for Node {node.name} of {node.metadata.resource_version}"
    if not answer and not lags and asked.versions_comparable:
        yield f"a cache of {records.version} does not for Node {node.name} of {node.metadata.resource_version}"


class Looked(NamedTuple):
    """Before the look at a VolumeAttachment: whether the cache does, and what it has."""

    cache_does: bool
    cached: VolumeAttachment | None


def cache_before(asked: AttachedLists, node: Node, name: str) -> Looked:
    records: Informer[VolumeAttachment] = vars(asked)["_records"]
    newer = records.version >= int(node.metadata.resource_version)
    return Looked(newer and asked.versions_comparable, records.get(name))


def looked(
    answer: VolumeAttachment | None, before: Looked, asked: AttachedLists, node: Node, name: str
) -> Iterator[str]:
    """A cache that does spares a live read: a burst of reports is to be no burst of reads."""
    if before.cache_does and answer is not before.cached:
        yield f"VolumeAttachment {name} was read live, and the cache is as new as Node {node.name}"


def comparable(answer: bool, client: object) -> Iterator[str]:
    """The API server of a run counts all kinds in one sequence."""
    if not answer:
        yield "resourceVersions of Nodes and VolumeAttachments count as those of two stores"


# --- VolumeAttachments


def created(
    answer: VolumeAttachment,
    asked: Handshake,
    volume: str,
    node: Node,
    spec: VolumeSpec,
    *,
    locked: bool = False,
    pod: str = "",
) -> Iterator[str]:
    """It says which volume it is about, for which registration and machine of the node, and under which
    lock; and it is known at once, so that none is made a second time."""
    cached = vars(asked)["_records"].get(answer.metadata.name)
    if cached is None and vars(asked)["_records"].version < int(answer.metadata.resource_version):
        yield f"VolumeAttachment {answer.metadata.name} was made, and its cache does not have it"
    annotations = answer.metadata.annotations
    plugin, name = annotations.get(names.PLUGIN, ""), annotations.get(names.VOLUME_NAME, "")
    machine = f"{node.status.node_info.system_uuid} {node.spec.provider_id}"
    facts: dict[str, tuple[Any, Any]] = {
        "volume": (f"{plugin}/{name}", volume),
        "node": (answer.spec.node_name, node.name),
        "registration": (annotations.get(names.NODE_UID), node.uid),
        "machine": (annotations.get(names.NODE_MACHINE, " "), machine),
    }
    if spec.persistent_volume is not None:
        facts["source"] = (answer.spec.source.persistent_volume_name, spec.persistent_volume.name)
        if locked or ATTACHED_TO not in spec.persistent_volume.metadata.annotations:
            facts["lock"] = (names.ATTACH_EPOCH in annotations, locked)
    elif answer.spec.source.inline_volume_spec is None:
        facts["inline volume"] = (names.INLINE_VOLUME in annotations, True)
    for what, (got, expected) in facts.items():
        if got != expected:
            yield f"VolumeAttachment of {volume} on {node.name}: its {what} is {got}, and not {expected}"


# --- locks


def epoch(
    answer: int, asked: Locks, volume: str, node: Node, spec: VolumeSpec, *, locked: bool, pod: str
) -> Iterator[str]:
    """Storage that does not refuse, and a node that is closed, need a grant, which advances the epoch."""
    text = spec.persistent_volume.metadata.annotations if spec.persistent_volume is not None else {}
    if ATTACHED_TO not in text and not locked and answer:
        yield f"{volume} never had a lock, and is of epoch {answer} on {node.name}"
    if locked and answer < 1:
        yield f"{volume} needs a lock, and is of epoch {answer} on {node.name}"


def granted(answer: Lock, asked: Lock, node: Node, pod: str, *, first: int = 1) -> Iterator[str]:
    """A later epoch, for this node and pod; open for it, and for no other that was closed."""
    if (answer.node, answer.node_uid, answer.pod) != (node.name, node.uid, pod):
        yield f"granted to {node.name} and {pod}: {answer}"
    yield from _next(answer, asked, first)
    if answer.closed != {name: each for name, each in asked.closed.items() if name != node.name}:
        yield f"granted to {node.name}: closed for {[*answer.closed]}, before for {[*asked.closed]}"


def released(
    answer: Lock, asked: Lock, node: str, boot_id: str, *, advance: bool, first: int = 1
) -> Iterator[str]:
    """After a force detach the node is closed under its boot, and every VolumeAttachment so far is void
    (C16)."""
    if advance:
        yield from _next(answer, asked, first)
    elif answer.epoch != asked.epoch:
        yield f"several nodes have it, and the epoch went from {asked.epoch} to {answer.epoch}"
    if answer.closed != asked.closed | {node: Closed(answer.epoch, boot_id)}:
        yield f"taken from {node} by force: closed are {answer.closed}, before {asked.closed}"
    if (answer.node, answer.node_uid, answer.pod) != (asked.node, asked.node_uid, asked.pod):
        yield f"taken from {node} by force: granted to {answer.node}, before to {asked.node}"


def _next(answer: Lock, asked: Lock, first: int) -> Iterator[str]:
    if answer.epoch != (first if asked.epoch == 0 else asked.epoch + 1):
        yield f"after epoch {asked.epoch} (the first is {first}) comes {answer.epoch}"


def current(
    answer: bool | InvalidSpec, record: VolumeAttachment, persistent_volume: PersistentVolume | None
) -> Iterator[str]:
    """A VolumeAttachment of another epoch than the lock's is void (C14)."""
    said, text = lock_said(persistent_volume), record.metadata.annotations.get(names.ATTACH_EPOCH, "0")
    if said is None or isinstance(answer, InvalidSpec):
        if said is not None or answer is True:
            yield f"the lock {said} is taken for {answer}"
    elif answer != (text == str(said.get("epoch", 0))):
        yield f"VolumeAttachment {record.name} of epoch {text} is {answer} under epoch {said.get('epoch')}"


QUESTIONS = (
    Question(attached_lists, "reported_volumes", listed),
    Question(AttachedLists, "_usable", stays_listed),
    Question(attached_lists, "is_usable", usable),
    Question(attached_lists, "is_same_node", for_this_node),
    Question(AttachedLists, "_is_as_new_as", new_enough),
    Question(AttachedLists, "_record_after", looked, before=cache_before),
    Question(attachdetach, "versions_comparable", comparable),
    Question(Handshake, "attach", created),
    Question(Locks, "for_attach", epoch),
    Question(Lock, "granted", granted),
    Question(Lock, "released", released),
    Question(locks, "is_current", current, refusals=(InvalidSpec,)),
    Question(attacher, "is_current", current, refusals=(InvalidSpec,)),
    Question(on_node, "is_current", current, refusals=(InvalidSpec,)),
    Question(locks, "lock_of", lock, refusals=(InvalidSpec,)),
)
