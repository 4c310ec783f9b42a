"""Removes a StatefulSet's pods from a node that its storage shuts out, where the policy opts in.

Their processes may still run there: what they write reaches none of their volumes any more, and whatever
else they do goes on. So a pod is removed only if all that it could share with its successor is shut: each of
its volumes is a claim's that the fence covers, or ends with the pod or the machine. The node is read live, in
the boot that is fenced and not answering; each pod and claim is read live, too, and both writes carry the
pod's uid and resourceVersion.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from mooring.controllers.fencing.same_boot import is_same_boot
from mooring.kube.batches import one_by_one
from mooring.kube.client import Client
from mooring.kube.disruption import disruption
from mooring.kube.errors import Conflict, NotFound
from mooring.kube.events import Recorder
from mooring.kube.objects import Node, PersistentVolume, PersistentVolumeClaim, Pod, Taint, Volume
from mooring.kube.objects.fencing import FenceTarget
from mooring.kube.taints import matching
from mooring.kube.times import Now
from mooring.volumes.claims import bound_claim, bound_persistent_volume, claim_name
from mooring.volumes.errors import ClaimError
from mooring.volumes.out_of_service import EFFECT, TAINT

OUT_OF_SERVICE = Taint(key=TAINT, effect=EFFECT)
MOST_TRIES = 3


def may_go(pod: Pod) -> bool:
    """Whether it is a pod that the policy's word is about, as far as it tells itself. One that tolerates a
    node that is out of service stays, as it does when the machine is off."""
    of_set = pod.controller is not None and pod.controller.kind == "StatefulSet"
    claims = [each for each in pod.spec.volumes if claim_name(pod, each) is not None]
    others = (each for each in pod.spec.volumes if each not in claims)
    return (
        of_set
        and (pod.deleting or not pod.finished)  # one that has ended, its StatefulSet deletes
        and not matching(pod, OUT_OF_SERVICE)
        and bool(claims)
        and all(map(_ends_with_its_machine, others))
    )


def _ends_with_its_machine(volume: Volume) -> bool:
    """Whether nothing that is written to the volume is seen on another machine. Of a kind that is not known
    here, that is not known."""
    local = (
        volume.empty_dir,
        volume.host_path,
        volume.config_map,
        volume.secret,
        volume.downward_api,
        volume.projected,
        volume.git_repo,
    )
    return any(each is not None for each in local)


async def remove(
    client: Client, target: FenceTarget, volumes: Mapping[str, str], recorder: Recorder, now: Now
) -> list[str]:
    """Removes those of the node's pods that may go; their keys. `volumes`: what the node is shut out of,
    VolumeAttachment to PersistentVolume. Idempotent."""
    node = await client.find(Node, target.node_name)
    if node is None or not is_same_boot(node, target) or node.ready != "Unknown":
        return []
    shut = set(volumes.values())
    pods = (await client.list(Pod, field_selector=f"spec.nodeName={node.name}")).items
    removed = list[str]()

    async def look(pod: Pod) -> None:
        if (
            may_go(pod)
            and await _is_shut_out(client, pod, shut)
            and await _removed(client, pod, node, recorder, now)
        ):
            removed.append(pod.key)

    await one_by_one(pods, look)
    return removed


async def _is_shut_out(client: Client, pod: Pod, shut: Collection[str]) -> bool:
    """Whether each of the pod's claims is bound to a volume that the node is shut out of."""
    for volume in pod.spec.volumes:
        name = claim_name(pod, volume)
        if name is None:
            continue
        try:
            claim = bound_claim(pod, volume, await client.find(PersistentVolumeClaim, name, pod.namespace))
            held = await client.find(PersistentVolume, claim.spec.volume_name)
            if bound_persistent_volume(claim, held).name not in shut:
                return False
        except ClaimError:
            return False
    return True


async def _removed(client: Client, pod: Pod, node: Node, recorder: Recorder, now: Now) -> bool:
    """Whether it was. One that is written by another meanwhile is read anew; one that is so all the time is
    looked at again with the fence."""
    message = (
        f"node {node.name} is shut out of the pod's volumes; its processes there may still run, and write to none "
        "of them"
    )
    status = {"phase": "Failed", "conditions": [disruption("DeletionByStorageFence", message, now())]}
    found: Pod | None = pod
    for _ in range(MOST_TRIES):
        if found is None or found.uid != pod.uid or not may_go(found):
            return False
        try:
            await _remove(client, found, status)
        except Conflict:
            named = await client.list(Pod, pod.namespace, field_selector=f"metadata.name={pod.name}")
            found = next(iter(named.items), None)
        except NotFound:
            return False
        else:
            recorder.event(pod, "Warning", "RemovedByStorageFence", message)
            return True
    return False


async def _remove(client: Client, pod: Pod, status: Mapping[str, Any]) -> None:
    """Says why, and removes it. Raises Conflict and NotFound."""
    client.check_leading()
    if not pod.finished:
        pod = await client.revise(pod, {"status": status}, subresource="status", strategy="strategic")
    version = pod.metadata.resource_version
    await client.delete(
        Pod, pod.name, pod.namespace, uid=pod.uid, resource_version=version, grace_period_seconds=0
    )
