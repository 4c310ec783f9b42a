"""What a node agent knows of its volumes, and what it tells pods and its Node of them: docs/protocol.md
"Mount", docs/nodes.md."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from mooring.kube.reason import Reason
from mooring.node.volumes import manager
from mooring.node.volumes.decide import Action, PodVolumes, Presence, VolumeState
from mooring.node.volumes.eviction import Evictions
from mooring.node.volumes.manager import VolumeManager
from mooring.node.volumes.node_volumes import NodeVolumes
from mooring.node.volumes.operations import Operations
from mooring.node.volumes.records import VolumeRecord
from mooring.node.volumes.volume import PodOperation, Want, WantedVolume
from mooring.simulation.checks.second_opinions import near_node_volumes as near
from mooring.simulation.checks.second_opinions.attach_states import lock_said
from mooring.simulation.checks.second_opinions.question import Question
from mooring.volumes.plugin_manager import PluginManager
from mooring.volumes.spec import VolumeSpec

NO_NAMES: frozenset[str] = frozenset()
FIRST_S, LAST_S = 0.5, 122.0
"""Of the back-off of an operation: 500 ms, doubling to 2 min 2 s (upstream: exponentialbackoff)."""

# --- one volume


def is_busy(volume: WantedVolume) -> bool:
    return volume.mounting or [each for each in volume.operations.values() if each.under_way] != []


def is_left(record: VolumeRecord) -> bool:
    """Something of it is, or may be, on this node."""
    return record.device is not None or len(record.pods) > 0 or record.attached_here


def volume_state(
    answer: VolumeState,
    asked: WantedVolume,
    *,
    published: bool,
    reported: bool,
    now: float,
    one_at_a_time: bool,
) -> Iterator[str]:
    """What is decided by: wanted by pods that use it, and by those that had it before the agent started."""
    under_way: set[str] = set()
    resting: dict[str, Action] = {}
    for pod, operation in asked.operations.items():
        if operation.under_way:
            under_way.add(pod)
        elif now < operation.again_at:
            resting[pod] = operation.action
    record, wants = asked.record, asked.wants
    starting = {pod for pod in wants if wants[pod].starting}
    if (
        (record.attachable, record.has_device) != (answer.attachable, answer.has_device)
        or (asked.device, asked.to_grow) != (answer.device, answer.to_grow)
        or (asked.stale and is_left(record)) != answer.stale
        or (asked.pods, asked.outdated) != (answer.pods, answer.outdated)
        or (asked.adopted.union(wants), starting) != (answer.wanted_by, answer.starting)
        or (under_way, resting) != (answer.under_way, answer.resting)
        or (published, reported, one_at_a_time) != (answer.published, answer.reported, answer.one_at_a_time)
    ):
        yield f"{asked} is judged as {answer}"
    if asked.stale and not record.attachable:
        yield f"{record.unique_name}, which nothing attaches, has lost its VolumeAttachment"


def awaited(answer: int | None, asked: WantedVolume, node_name: str) -> Iterator[str]:
    """The epoch of a lock that is closed for this node, as a pod that waits has seen it; only if nothing of
    it is left here (C16)."""
    if is_busy(asked) or is_left(asked.record):
        if answer is not None:
            yield f"{asked.record.unique_name} is here, and is said to be awaited under epoch {answer}"
        return
    said = [lock_said(want.spec.persistent_volume) or {} for want in asked.wants.values()]
    seen = [each.get("epoch", 0) for each in said if node_name in each.get("closed", {})]
    if answer != max(seen, default=None):
        yield f"{asked.record.unique_name} is awaited under epoch {answer}, of {seen}"


class Before(NamedTuple):
    """Of one pod's operation."""

    action: Action | None
    failures: int


def operation_before(asked: WantedVolume, pod_uid: str, action: Action) -> Before:
    last = asked.operations.get(pod_uid)
    return Before(last.action, last.failures) if last is not None else Before(None, 0)


def begun(
    answer: PodOperation, before: Before, asked: WantedVolume, pod_uid: str, action: Action
) -> Iterator[str]:
    """It is under way; what has failed before counts if it was of the same kind."""
    failures = before.failures if before.action is action else 0
    if (answer.action, answer.under_way, answer.failures) != (action, True, failures):
        yield f"after {before} begins {answer}"
    if asked.operations.get(pod_uid) is not answer:
        yield f"{action.value} for a pod has begun, and is not known"


def failures_before(asked: PodOperation, now: float) -> int:
    return asked.failures


def failed(answer: float, before: int, asked: PodOperation, now: float) -> Iterator[str]:
    """It is tried again after its back-off: upstream's, which doubles; at once, if something has changed
    since it began."""
    delay = FIRST_S
    for _ in range(min(before, 9)):
        delay = min(2 * delay, LAST_S)
    ended = not asked.under_way and asked.failures == before + 1
    again_at = 0.0 if asked.roused else now + delay
    if abs(answer - delay) > 1e-6 or abs(asked.again_at - again_at) > 1e-6 or not ended:
        yield f"after {before} failures and one more: {answer} s, and not {delay} s; {asked}"


def rest(answer: float | None, asked: WantedVolume, now: float) -> Iterator[str]:
    """The next operation that has failed and may be tried again: it is looked at then, and not before."""
    ends = sorted(
        each.again_at for each in asked.operations.values() if not each.under_way and each.again_at > now
    )
    if (answer is None) != (not ends) or (answer is not None and abs(now + answer - ends[0]) > 1e-6):
        yield f"{asked.record.unique_name} is looked at in {answer} s: now is {now}, the next of {ends}"


def aged(
    answer: float | None,
    asked: WantedVolume,
    period: Callable[[Want], float | None],
    now: float,
) -> Iterator[str]:
    """What a pod has had for as long as it lasts, or for an unknown time, is set up again."""
    left: list[float] = []
    for pod, want in asked.wants.items():
        lasts = period(want) if asked.pods.get(pod) is Presence.PRESENT else None
        if lasts is None:
            continue
        ends = asked.set_up_at[pod] + lasts if pod in asked.set_up_at else now
        if ends > now:
            left.append(ends - now)
        elif pod not in asked.outdated:
            yield f"{asked.record.unique_name} is {now - ends} s too old, and is not set up again"
    if (answer is None) != (not left) or (answer is not None and abs(answer - min(left)) > 1e-6):
        yield f"{asked.record.unique_name} is looked at in {answer} s, and the next one ages in {left}"


def dropped(answer: bool, before: bool, asked: WantedVolume, pod_uid: str) -> Iterator[str]:
    """The pod wants it no more, whether it said so to this agent or to one before."""
    if pod_uid in asked.wants or pod_uid in asked.adopted or answer != before:
        yield f"{asked.record.unique_name} was {'' if before else 'not '}wanted: {answer}, {asked.adopted}"


def was_wanted(asked: WantedVolume, pod_uid: str) -> bool:
    return pod_uid in asked.wants or pod_uid in asked.adopted


def operation_forgotten(answer: None, asked: WantedVolume, pod_uid: str) -> Iterator[str]:
    """What failed for a pod that neither wants nor holds the volume concerns no other."""
    last = asked.operations.get(pod_uid)
    has = asked.pods.get(pod_uid, Presence.ABSENT) is not Presence.ABSENT
    if last is not None and not last.under_way and not has and pod_uid not in asked.wants:
        yield f"{asked.record.unique_name}: an operation of a pod that is gone is remembered"


def another_attachment(answer: bool, asked: WantedVolume, attachment_uid: str) -> Iterator[str]:
    """The device is, or may be, mounted under another VolumeAttachment than this one."""
    device = asked.record.device
    if answer != (device is not None and device.attachment_uid != attachment_uid):
        yield f"{asked.record.unique_name}, under {attachment_uid}: taken over {answer}, {device}"


# --- all volumes of a node


def in_use(answer: tuple[str, ...], asked: NodeVolumes) -> Iterator[str]:
    """volumesInUse: what is attached for this node, and that a pod wants or of which something is left."""
    found = {
        name
        for name, volume in asked.volumes.items()
        if volume.record.attachable and (volume.wants or is_left(volume.record) or is_busy(volume))
    }
    if list(answer) != sorted(found):
        yield f"volumesInUse is {answer}, of {sorted(found)}"


def found_again(
    answer: None, asked: NodeVolumes, record: VolumeRecord, mount_points: set[str]
) -> Iterator[str]:
    """After a restart it is its pods', whatever the API shows, unless it was being taken from them; what is
    recorded, and no mount point, or being set up or unmounted, may be there."""
    volume, device = asked.volumes.get(record.unique_name), record.device
    theirs = {pod for pod, each in record.pods.items() if not each.leaving}
    if volume is None or volume.adopted != theirs:
        yield f"{record.unique_name} is not that of pods {sorted(theirs)}"
        return
    surely = {pod for pod in theirs if record.pods[pod].path in mount_points}
    surely -= {pod for pod, each in record.pods.items() if each.unfinished}
    expected = {pod: Presence.PRESENT if pod in surely else Presence.UNCERTAIN for pod in record.pods}
    if volume.pods != expected:
        yield f"{record.unique_name} of {expected} is {volume.pods}"
    if device is None:
        presence = Presence.UNCERTAIN if record.attached_here else Presence.ABSENT
    else:
        mounted = device.mount_path in mount_points and not device.leaving and not device.unfinished
        presence = Presence.PRESENT if mounted else Presence.UNCERTAIN
    looked_at = device is None or not record.attachable or record.attached_here
    if (volume.device, volume.unverified) != (presence, not looked_at):
        yield f"{record.unique_name}: the device is {volume.device}, {volume.unverified}; not {presence}"
    if unknown := [pod for pod in record.pods if pod not in asked.pods()]:
        yield f"{record.unique_name} is of pods {unknown}, who are not known"


def _of(known: NodeVolumes, pod_uid: str) -> list[WantedVolume]:
    """What a pod wants or holds, in any order."""
    names: set[str] = vars(known)["_by_pod"].get(pod_uid, set())
    return [known.volumes[name] for name in names]


def pods_view(answer: PodVolumes, asked: NodeVolumes, pod_uid: str, evicted: Reason | None) -> Iterator[str]:
    """What the pod has under which of its names, and for what it waits."""
    stale = held = releasing = False
    names, read_only = 0, NO_NAMES
    for volume in _of(asked, pod_uid):
        want, presence = volume.wants.get(pod_uid), volume.pods.get(pod_uid, Presence.ABSENT)
        if presence is not Presence.ABSENT:
            held, stale = True, stale or volume.stale
        if want is None:
            releasing = releasing or pod_uid not in volume.adopted
            continue
        names += len(want.names)
        read_only = read_only | want.read_only if want.read_only else read_only
        path = volume.record.pods[pod_uid].path if presence is Presence.PRESENT else None
        waits = want.problem if path is None else None
        for name in want.names:
            if answer.mounted.get(name) != path or answer.waiting.get(name) != waits:
                yield f"of pod {pod_uid} {name} is at {path}, waits: {waits}; {answer}"
    if len(answer.mounted) + len(answer.waiting) != names or answer.read_only != read_only:
        yield f"pod {pod_uid} has {names} names of volumes, of which it may only read {read_only}; {answer}"
    if answer.evicted is not evicted:
        yield f"pod {pod_uid} has to end: {evicted}; {answer}"
    if answer.stale != stale or answer.held != held or answer.releasing != releasing:
        yield f"pod {pod_uid} has something: {held}, stale: {stale}, and lets it go: {releasing}; {answer}"


def wanted(answer: None, asked: NodeVolumes, volume: WantedVolume, want: Want) -> Iterator[str]:
    """From now on it is known, and the pod's own wish counts, not what an earlier agent had recorded."""
    uid, name = want.pod.metadata.uid, volume.record.unique_name
    if asked.volumes.get(name) is not volume or volume.wants.get(uid) is not want or uid in volume.adopted:
        yield f"pod {want.pod.key} wants {name}, and that is not known"
    if uid not in asked.pods():
        yield f"pod {want.pod.key} wants {name}, and is not known"


def forgotten(answer: None, before: bool, asked: NodeVolumes, volume: WantedVolume) -> Iterator[str]:
    """A volume is forgotten when no pod wants it, and nothing of it is left."""
    if before != (asked.volumes.get(volume.record.unique_name) is volume):
        yield f"{volume.record.unique_name} is {'forgotten' if before else 'not forgotten'}"


def stays(asked: NodeVolumes, volume: WantedVolume) -> bool:
    known = asked.volumes.get(volume.record.unique_name) is volume
    used = volume.wants or is_left(volume.record) or (volume.record.attachable and is_busy(volume))
    return known and bool(used)


def sharing(answer: set[str], asked: VolumeManager, pod_uid: str) -> Iterator[str]:
    """Other pods that have, or may have, a volume of the pod's that one node alone may have (S1')."""
    known: NodeVolumes = vars(asked)["_known"]
    if pod_uid in answer:
        yield f"pod {pod_uid} counts as one that shares its volumes with itself"
    expected: set[str] = set()
    for volume in _of(known, pod_uid):
        if len(volume.pods) <= (pod_uid in volume.pods):
            continue
        others = {pod for pod, is_there in volume.pods.items() if is_there is not Presence.ABSENT} - {pod_uid}
        want = volume.wants.get(pod_uid)
        if others and want is not None and _is_exclusive(asked, want.spec):
            expected |= others
    if answer - {pod_uid} != expected:
        yield f"pod {pod_uid} shares volumes with {sorted(answer)}, and not with {sorted(expected)}"


def _is_exclusive(asked: VolumeManager, spec: VolumeSpec) -> bool:
    """By its access modes (upstream: IsMultiAttachAllowed), or because its storage can do no more."""
    volume = spec.persistent_volume
    modes = set(volume.spec.access_modes) if volume is not None else set[str]()
    if modes and modes.isdisjoint({"ReadWriteMany", "ReadOnlyMany"}):
        return True
    plugins: PluginManager = vars(asked)["_plugins"]
    plugin = plugins.find_attachable_plugin_by_spec(spec)
    return plugin is not None and not plugin.capabilities(spec).multi_attach


def to_be_evicted(answer: bool, asked: Evictions, want: Want) -> Iterator[str]:
    """Each pod is named once, and none that ends anyway."""
    named = asked.reason(want.pod.metadata.uid) is not None
    if answer != (want.starting and not named):
        yield f"pod {want.pod.key} is {'' if answer else 'not '}looked at; starting: {want.starting}, {named}"


def recorded_first(
    answer: VolumeRecord, asked: Operations, unique_name: str, spec: VolumeSpec
) -> Iterator[str]:
    """Nothing of it is there yet; raw devices are given to the node once, like what is mounted once for
    it."""
    raw = spec.persistent_volume is not None and spec.persistent_volume.spec.volume_mode == "Block"
    plugins = vars(asked)["_plugins"]
    attached = plugins.find_attachable_plugin_by_spec(spec) is not None
    once = raw or plugins.find_device_mountable_plugin_by_spec(spec) is not None
    got = (answer.unique_name, answer.block, answer.attachable, answer.has_device)
    if got != (unique_name, raw, attached, once) or is_left(answer):
        yield f"{unique_name} begins as {answer}"


def growing(answer: bool, asked: Operations, spec: VolumeSpec) -> Iterator[str]:
    """Only a file system of a volume with a claim grows, where its plugin can."""
    volume = spec.persistent_volume
    has_claim = volume is not None and volume.spec.claim_ref is not None
    raw = volume is not None and volume.spec.volume_mode == "Block"
    able = vars(asked)["_plugins"].find_node_expandable_plugin_by_spec(spec) is not None
    if answer != (has_claim and able and not raw):
        yield f"volume {spec.name} may {'' if answer else 'not '}grow"


def reconstructed(
    answer: Mapping[str, VolumeRecord], root: Any, plugins: Any, known: list[VolumeRecord], table: object
) -> Iterator[str]:
    """All that is recorded is found again, with what else is there of it."""
    for record in known:
        now = answer.get(record.unique_name)
        if now is None or not record.pods.items() <= now.pods.items() or now.has_device < record.has_device:
            yield f"{record.unique_name} was recorded as {record}, and is found as {now}"
        elif record.device is not None and now.device is None:
            yield f"{record.unique_name}: the device at {record.device.mount_path} is not found again"


QUESTIONS = (
    Question(WantedVolume, "state", volume_state, near=near.KNOWN),
    Question(WantedVolume, "awaited_epoch", awaited, near=near.AWAITED),
    Question(WantedVolume, "begin", begun, before=operation_before),
    Question(PodOperation, "failed", failed, before=failures_before),
    Question(WantedVolume, "rest", rest, near=near.RESTS),
    Question(WantedVolume, "age", aged),
    Question(WantedVolume, "drop", dropped, before=was_wanted),
    Question(WantedVolume, "forget_operation", operation_forgotten),
    Question(WantedVolume, "taken_over", another_attachment),
    Question(NodeVolumes, "in_use", in_use),
    Question(NodeVolumes, "found", found_again),
    Question(NodeVolumes, "state", pods_view),
    Question(NodeVolumes, "want", wanted),
    Question(NodeVolumes, "forget", forgotten, before=stays),
    Question(manager, "reconstruct", reconstructed),
    Question(VolumeManager, "sharers", sharing),
    Question(Operations, "empty_record", recorded_first),
    Question(Operations, "grows", growing),
    Question(Evictions, "_may_be_evicted", to_be_evicted),
)
