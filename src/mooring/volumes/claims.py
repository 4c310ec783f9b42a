"""From a volume of a pod to its spec: its claim, its PersistentVolume, and whether they belong together.

Pure: what is known is passed in as two look-ups. Rules: upstream's attach/detach controller
(`attachdetach/util`) and kubelet (`volumemanager/populator`). Every refusal is a `ClaimError`
that names the object to look at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mooring.kube.objects import PersistentVolume, PersistentVolumeClaim, Pod, Volume
from mooring.volumes.errors import ClaimError
from mooring.volumes.spec import VolumeSpec

CLAIM_PROTECTION = "kubernetes.io/pvc-protection"

GetClaim = Callable[[str, str], PersistentVolumeClaim | None]
"""Takes namespace and name."""
GetPersistentVolume = Callable[[str], PersistentVolume | None]


def claim_name(pod: Pod, volume: Volume) -> str | None:
    """Returns the name of the claim that `volume` uses, in the pod's namespace; None for a volume without a
    claim. A generic ephemeral volume has the claim `<pod>-<volume>`."""
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    if volume.ephemeral is not None:
        return f"{pod.name}-{volume.name}"
    return None


def claims_of(pod: Pod) -> list[str]:
    """Returns the keys of the claims that the pod's volumes name."""
    names = (claim_name(pod, volume) for volume in pod.spec.volumes)
    return [f"{pod.namespace}/{name}" for name in names if name]


def claim_keys_in_use(pod: Pod) -> list[str]:
    """Returns the keys of the claims that the pod keeps from being deleted.

    The claims of its generic ephemeral volumes are not among them once the pod is only waiting to be removed:
    its node has removed it with grace 0, after its volumes were unmounted, or it was force deleted. In a
    foreground deletion the pod waits for these very claims. The volumes behind them are reclaimed only after
    `users_of_claim` finds no pod.
    """
    shut_down = pod.deleting and pod.metadata.deletion_grace_period_seconds == 0
    volumes = (volume for volume in pod.spec.volumes if not (shut_down and volume.ephemeral is not None))
    names = (claim_name(pod, volume) for volume in volumes)
    return [f"{pod.namespace}/{name}" for name in names if name]


def users_of_claim(key: str, pods: Iterable[Pod]) -> list[Pod]:
    """Returns the pods that may have mounted the volume of the claim `key`: they name it, have a node, and
    have not ended. Upstream: `isVolumeUsed` of the persistentvolume controller."""
    return [pod for pod in pods if pod.spec.node_name and not pod.finished and key in claims_of(pod)]


def not_of_successor(
    pods: Iterable[Pod], successor: PersistentVolumeClaim | None, *, attached: bool
) -> list[Pod]:
    """Returns those users of a deleted claim that may have its volume, and not the volume of its successor:
    the claim that has its name now, if there is one.

    A pod names its claim, and not the claim's uid. For a volume that is `attached` before it
    is mounted, its attachments tell (the caller has seen none). For other volumes, time tells:
    a pod that is younger than the successor can only have the successor's volume. Times are
    whole seconds, so a pod of the same second counts.
    """
    if successor is None:
        return list(pods)
    born = successor.metadata.creation_timestamp or ""
    return [] if attached else [pod for pod in pods if (pod.metadata.creation_timestamp or "") <= born]


def volume_spec(
    pod: Pod, volume: Volume, get_claim: GetClaim, get_persistent_volume: GetPersistentVolume
) -> VolumeSpec:
    """Returns the spec of a pod's volume. Raises `ClaimError` if its claim is missing,
    unbound, or not the volume's."""
    name = claim_name(pod, volume)
    if name is None:
        return VolumeSpec.of_volume(volume)
    claim = bound_claim(pod, volume, get_claim(pod.namespace, name))
    read_only = volume.persistent_volume_claim is not None and volume.persistent_volume_claim.read_only
    pv = bound_persistent_volume(claim, get_persistent_volume(claim.spec.volume_name))
    return VolumeSpec.of_persistent_volume(pv, read_only)


def bound_claim(pod: Pod, volume: Volume, claim: PersistentVolumeClaim | None) -> PersistentVolumeClaim:
    """Returns the claim if the pod may use it. Raises `ClaimError`."""
    where = f"PersistentVolumeClaim {pod.namespace}/{claim_name(pod, volume)}"
    if claim is None:
        raise ClaimError(where, "ClaimNotFound", f"{where} of volume {volume.name} does not exist")
    if volume.ephemeral is not None and not is_owned_by(claim, pod):
        message = f"{where} was not created for pod {pod.key}, so its volume {volume.name} does not use it: delete it"
        raise ClaimError(where, "ClaimNotOwned", message)
    if claim.status.phase != "Bound" or not claim.spec.volume_name:
        phase = claim.status.phase or "Pending"
        raise ClaimError(
            where, "ClaimNotBound", f"{where} of volume {volume.name} is {phase}, not bound to a volume yet"
        )
    return claim


def bound_persistent_volume(claim: PersistentVolumeClaim, pv: PersistentVolume | None) -> PersistentVolume:
    """Returns the claim's PersistentVolume if it is bound to this very claim. Raises `ClaimError`."""
    where = f"PersistentVolume {claim.spec.volume_name}"
    if pv is None:
        message = f"{where} of claim {claim.key} does not exist"
        raise ClaimError(where, "VolumeNotFound", message)
    if not is_volume_of(pv, claim):
        reference = pv.spec.claim_ref
        bound_to = f"{reference.namespace}/{reference.name} (uid {reference.uid})" if reference else "nothing"
        message = f"{where} is bound to {bound_to}, not to claim {claim.key} (uid {claim.uid})"
        raise ClaimError(where, "VolumeNotOfClaim", message)
    return pv


def is_volume_of(pv: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether the volume is bound to this very claim. That the claim names it shows nothing: it may name any,
    and the volume may have been made anew since, for another claim."""
    reference = pv.spec.claim_ref
    return reference is not None and reference.uid == claim.uid


def waits_for_copy_of(claim: PersistentVolumeClaim, group: str, kind: str) -> list[str]:
    """Returns the key of the object of this kind that the claim's volume is to be a copy of, as long as it
    has none."""
    source = claim.spec.data_source_ref or claim.spec.data_source or {}
    waits = claim.status.phase in ("", "Pending")
    is_of_kind = (source.get("apiGroup") or "", source.get("kind")) == (group, kind)
    return [f"{claim.namespace}/{source.get('name')}"] if waits and is_of_kind else []


def refuse_being_deleted(claim: PersistentVolumeClaim) -> None:
    """Raises `ClaimError` for a claim that is being deleted and has no protection finalizer any
    more: it must not be mounted anew."""
    if claim.deleting and CLAIM_PROTECTION not in claim.metadata.finalizers:
        where = f"PersistentVolumeClaim {claim.key}"
        raise ClaimError(where, "ClaimBeingDeleted", f"{where} is being deleted")


def refuse_wrong_use(pod: Pod, volume: Volume, spec: VolumeSpec) -> None:
    """Raises `ClaimError` if a raw device is to be mounted, or a file system is to be given as a device."""
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    mounted = any(mount.name == volume.name for container in containers for mount in container.volume_mounts)
    as_device = any(
        device.name == volume.name for container in containers for device in container.volume_devices
    )
    where = f"Pod {pod.key}"
    if spec.block and mounted:
        message = (
            f"volume {volume.name} has volumeMode Block, so it belongs under volumeDevices, not volumeMounts"
        )
        raise ClaimError(where, "VolumeModeMismatch", message)
    if not spec.block and as_device:
        message = f"volume {volume.name} has volumeMode Filesystem, so it belongs under volumeMounts, not volumeDevices"
        raise ClaimError(where, "VolumeModeMismatch", message)


def is_owned_by(claim: PersistentVolumeClaim, pod: Pod) -> bool:
    """Whether `claim` was made for this very pod."""
    owner = claim.controller
    return owner is not None and owner.uid == pod.uid
