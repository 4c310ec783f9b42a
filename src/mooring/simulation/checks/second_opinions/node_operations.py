"""What is known of a volume when an operation on it has succeeded, or something about it has changed:
docs/nodes.md and docs/protocol.md, "Mount"."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from mooring.kube.objects import Pod
from mooring.node.volumes.content import ContentWatches
from mooring.node.volumes.decide import Action, Decision, Presence
from mooring.node.volumes.handshake import Permission
from mooring.node.volumes.manager import Publisher, VolumeManager
from mooring.node.volumes.node_volumes import NodeVolumes
from mooring.node.volumes.operations import Operations
from mooring.node.volumes.volume import Want, WantedVolume
from mooring.simulation.checks.second_opinions.attaching import awaited_on
from mooring.simulation.checks.second_opinions.question import Question
from mooring.volumes.errors import VolumeError
from mooring.volumes.interfaces import VolumePlugin
from mooring.volumes.plugin_manager import PluginManager

# --- operations


def has_been_set_up(answer: None, asked: Operations, volume: WantedVolume, pod_uid: str) -> Iterator[str]:
    """A pod has it only if no other has one of ReadWriteOncePod, and its plugin honours the mount options."""
    want, name = volume.wants.get(pod_uid), volume.record.unique_name
    if want is None or not want.starting or volume.pods.get(pod_uid) is not Presence.PRESENT:
        return
    if pod_uid not in volume.record.pods or pod_uid not in volume.set_up_at:
        yield f"{name} is set up for pod {pod_uid}, and it is not recorded where, or since when"
    persistent_volume = want.spec.persistent_volume
    if persistent_volume is None:
        return
    if list(persistent_volume.spec.access_modes) == ["ReadWriteOncePod"] and (
        others := [uid for uid in volume.pods if uid != pod_uid and volume.pods[uid] is not Presence.ABSENT]
    ):
        yield f"{name} is one pod's, and was set up for {pod_uid} beside {others}"
    options = persistent_volume.spec.mount_options
    if options and (plugin := _plugin(asked, volume)) is not None and not plugin.supports_mount_option():
        yield f"{name} was set up without its mount options {options}"


def _plugin(asked: Operations, volume: WantedVolume) -> VolumePlugin | None:
    plugins: PluginManager = vars(asked)["_plugins"]
    try:
        return plugins.find_plugin_by_name(volume.record.plugin)
    except VolumeError:
        return None


def has_been_torn_down(answer: None, asked: Operations, volume: WantedVolume, pod_uid: str) -> Iterator[str]:
    """Nothing of it is the pod's any more."""
    known = (volume.pods, volume.record.pods, volume.set_up_at, volume.outdated)
    if left := [each for each in known if pod_uid in each]:
        yield f"{volume.record.unique_name} was taken from pod {pod_uid}, and is known as its: {left}"


def to_be_mounted(asked: Operations, volume: WantedVolume, permission: Permission | None) -> bool:
    """A pod that starts wants it."""
    return any(want.starting for want in volume.wants.values())


def device_mounted(
    answer: None, before: bool, asked: Operations, volume: WantedVolume, permission: Permission | None
) -> Iterator[str]:
    """It is there, and recorded under which attachment; no unmount of before can take it away."""
    device, uid = volume.record.device, permission.attachment_uid if permission is not None else ""
    if not before:
        return
    if volume.device is not Presence.PRESENT or device is None or device.leaving or device.unfinished:
        yield f"{volume.record.unique_name}: its device was mounted; it is {volume.device}, {device}"
    elif device.attachment_uid != uid:
        yield f"{volume.record.unique_name} was mounted under {uid}, and is recorded as {device}"


def device_unmounted(answer: None, asked: Operations, volume: WantedVolume, node_name: str) -> Iterator[str]:
    """Nothing of it is left on the node."""
    record = volume.record
    if record.device is not None or record.attached_here or volume.device is not Presence.ABSENT:
        yield f"{record.unique_name}: its device was unmounted; it is {volume.device}, {record}"
    if volume.stale:
        yield f"{record.unique_name}: its device was unmounted, and counts as stale"


def of_a_refusal(
    answer: VolumeError | None, asked: Operations, volume: WantedVolume, want: Want, plugin: VolumePlugin
) -> Iterator[str]:
    """Refused is a second pod of a volume of ReadWriteOncePod, and mount options that a plugin has not."""
    others = {uid for uid, presence in volume.pods.items() if presence is not Presence.ABSENT} - {
        want.pod.uid
    }
    modes = want.spec.persistent_volume.spec.access_modes if want.spec.persistent_volume is not None else ()
    taken = list(modes) == ["ReadWriteOncePod"] and bool(others)
    unknown = bool(want.spec.mount_options) and not plugin.supports_mount_option()
    if (answer is not None) != (taken or unknown):
        yield f"{volume.record.unique_name} for pod {want.pod.key}, beside {sorted(others)}: {answer!r}"


# --- whose content is watched


def follows(asked: ContentWatches, pod_uid: str, unique_name: str) -> dict[object, set[object]]:
    """What stays of whom when this pod does not use this volume any more."""
    left = {source: each - {(pod_uid, unique_name)} for source, each in _users(asked).items()}
    return {source: each for source, each in left.items() if each}


def unfollowed(
    answer: None, left: dict[object, set[object]], asked: ContentWatches, pod_uid: str, unique_name: str
) -> Iterator[str]:
    """What others use is watched still, and nothing else."""
    if _users(asked) != left or not vars(asked)["_watches"].keys() <= left.keys():
        yield f"pod {pod_uid} leaves {unique_name}: used are {sorted(map(str, left))}, and others are watched"


def _users(asked: ContentWatches) -> dict[object, set[object]]:
    users: Mapping[object, Iterable[object]] = vars(asked)["_users"]
    return {source: set(each) for source, each in users.items()}


# --- what has changed


def known_of(asked: VolumeManager) -> NodeVolumes:
    return vars(asked)["_known"]


def taken_step(
    answer: bool | Exception, asked: VolumeManager, volume: WantedVolume, decision: Decision
) -> Iterator[str]:
    """A node from which the volume was taken by force says that a pod awaits it, with nothing of it mounted
    here, or it is never opened again (C16)."""
    if decision.action is not Action.WAIT_FOR_ATTACH or isinstance(answer, Exception):
        return
    publisher: Publisher = vars(asked)["_publisher"]
    node, epoch = publisher.node, volume.awaited_epoch(vars(asked)["_node_name"])
    name = volume.record.unique_name
    if epoch is not None and node is not None and awaited_on(node).get(name, -1) < epoch:
        yield f"{name} is awaited under epoch {epoch}, and the Node says {awaited_on(node)}"


def grown(
    answer: Exception | None, asked: VolumeManager, volume: WantedVolume, decision: Decision
) -> Iterator[str]:
    """What has failed is tried again."""
    if answer is not None and not volume.to_grow:
        yield f"{volume.record.unique_name} has not grown ({answer}), and is not tried again"


def metadata_before(
    asked: VolumeManager, old: Pod | None, new: Pod | None
) -> dict[str, tuple[object, object]]:
    """What a pod's volumes show of it."""
    if new is None:
        return {}
    wants = {each.record.unique_name: each.wants.get(new.uid) for each in known_of(asked).of(new.uid)}
    metadata = {name: want.pod.metadata for name, want in wants.items() if want is not None}
    return {name: (each.labels, each.annotations) for name, each in metadata.items()}


def pod_shown(
    answer: None,
    before: dict[str, tuple[object, object]],
    asked: VolumeManager,
    old: Pod | None,
    new: Pod | None,
) -> Iterator[str]:
    """A pod that is gone gets nothing new; one whose labels or annotations have changed is shown these."""
    pod = new or old
    if pod is None:
        return
    now = (pod.metadata.labels, pod.metadata.annotations)
    for volume in known_of(asked).of(pod.uid):
        want, name = volume.wants.get(pod.uid), volume.record.unique_name
        if want is None:
            continue
        if new is None and want.starting:
            yield f"pod {pod.key} is gone, and {name} is still set up for it"
        plugin = _plugin(vars(asked)["_operations"], volume)
        if new is None or before.get(name) == now or plugin is None or not plugin.requires_remount():
            continue
        if pod.uid not in volume.outdated:
            yield f"{name} shows pod {pod.key} as it was before"


def content_shown(answer: None, asked: VolumeManager, pod_uid: str, unique_name: str) -> Iterator[str]:
    """Something has changed: it is set up once more, and what has failed may be tried at once."""
    volume = known_of(asked).volumes.get(unique_name)
    if volume is None or pod_uid not in volume.wants:
        return
    plugin, last = _plugin(vars(asked)["_operations"], volume), volume.operations.get(pod_uid)
    if plugin is not None and plugin.requires_remount() and pod_uid not in volume.outdated:
        yield f"{unique_name} has changed, and is not set up again for pod {pod_uid}"
    if last is not None and not last.under_way and last.again_at > 0:
        yield f"{unique_name} has changed, and what has failed for pod {pod_uid} rests"


def ends(answer: None, asked: VolumeManager, pod_uid: str) -> Iterator[str]:
    """The pod gets nothing new."""
    wants = [each.wants.get(pod_uid) for each in known_of(asked).of(pod_uid)]
    if any(want is not None and want.starting for want in wants):
        yield f"pod {pod_uid} ends, and its volumes are still set up"


def let_go(answer: None, asked: VolumeManager, pod_uid: str) -> Iterator[str]:
    """The pod wants nothing any more: what it holds is unmounted, and the rest is not its any more."""
    for volume in known_of(asked).of(pod_uid):
        if pod_uid in volume.wants or pod_uid in volume.adopted:
            yield f"{volume.record.unique_name} is still wanted by pod {pod_uid}, which let it go"
        if volume.pods.get(pod_uid, Presence.ABSENT) is Presence.ABSENT and pod_uid not in volume.operations:
            yield f"{volume.record.unique_name} is still known as one of pod {pod_uid}, which let it go"


def has_looked(asked: VolumeManager) -> bool:
    return asked.remembered() is not None


def looked(answer: None, before: bool, asked: VolumeManager) -> Iterator[str]:
    """Until an agent has found what earlier ones left, it knows nothing of any volume; nor does it say so."""
    if before:
        yield "what an agent knows of its volumes is told before it has looked for what earlier ones left"
    if not has_looked(asked):
        yield "an agent has looked for what earlier ones left, and still knows nothing"


def told_in_use(answer: tuple[str, ...], asked: VolumeManager) -> Iterator[str]:
    """A Node without a volume that is mounted there lets it be detached: an agent tells that list when it
    has looked."""
    if not has_looked(asked):
        yield f"volumesInUse is {answer}, before the agent has looked for what earlier ones left"


QUESTIONS = (
    Question(VolumeManager, "reconstruct", looked, before=has_looked),
    Question(VolumeManager, "volumes_in_use", told_in_use),
    Question(Operations, "set_up", has_been_set_up),
    Question(Operations, "_refuse", of_a_refusal, refusals=(VolumeError,)),
    Question(ContentWatches, "unfollow", unfollowed, before=follows),
    Question(Operations, "tear_down", has_been_torn_down),
    Question(Operations, "mount_device", device_mounted, before=to_be_mounted),
    Question(Operations, "unmount_device", device_unmounted),
    Question(VolumeManager, "_take", taken_step, refusals=(Exception,)),
    Question(VolumeManager, "_grow", grown, refusals=(Exception,)),
    Question(VolumeManager, "pod_updated", pod_shown, before=metadata_before),
    Question(VolumeManager, "content_changed", content_shown),
    Question(VolumeManager, "terminating", ends),
    Question(VolumeManager, "release", let_go),
)
