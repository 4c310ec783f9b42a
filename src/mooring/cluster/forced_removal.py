"""Deletes a pod; by force only where its node does not answer, and a person has taken the risk.

A pod of a node that answers is deleted as ever: its node ends its processes. Where the node is silent only
its object can be taken away; another pod of its name may then start beside processes that still run (origin:
pod safety, "User interface changes"). All is read live; what is written carries the uid and resourceVersion
that were read. The confirmation is written on the pod first, where a ValidatingAdmissionPolicy can ask for it
(`deploy/forced-removal.yaml`).
"""

from __future__ import annotations

import msgspec

from mooring.apiserver.objects.forced_removal import risk
from mooring.cluster.layout import ClusterError
from mooring.kube.client import Client
from mooring.kube.objects import Node, Pod

CONFIRMED = "mooring.dev/removal-confirmed"
"""On a pod: the uid of the pod whose removal by force a person has confirmed."""


async def delete(client: Client, namespace: str, name: str, *, confirmed: bool) -> str:
    """What was done. ClusterError, and nothing changed, if there is no such pod, or if its node is silent and
    that it may still run there is not `confirmed`. Conflict if the pod changes meanwhile."""
    pod = await client.find(Pod, name, namespace)
    if pod is None:
        raise ClusterError(f"there is no pod {namespace}/{name}: nothing was changed")
    node = await client.find(Node, pod.spec.node_name) if pod.spec.node_name else None
    risked = risk(msgspec.to_builtins(pod), msgspec.to_builtins(node) if node is not None else None)
    if risked is None:
        await client.delete(Pod, name, namespace, uid=pod.uid)
        return f"pod {pod.key} is being deleted" + (f": node {node.name} ends it" if node is not None else "")
    if not confirmed:
        raise ClusterError(
            f"{risked}. Nothing was changed. To remove the pod by force all the same: mooring delete pod/{name} "
            f"--namespace {namespace} --confirm"
        )
    pod = await client.revise(pod, {"metadata": {"annotations": {CONFIRMED: pod.uid}}})
    version = pod.metadata.resource_version
    await client.delete(Pod, name, namespace, uid=pod.uid, resource_version=version, grace_period_seconds=0)
    return (
        f"pod {pod.key} was removed by force. Its volumes stay with node {pod.spec.node_name} until that answers, is "
        f"fenced, or is said to be off: mooring fence confirm {pod.spec.node_name}"
    )
