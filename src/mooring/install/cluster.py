"""Reads from a cluster what `check` judges. It writes nothing; a review of rights is asked, not stored.

What the one who asks may not read is told apart from what is not there: without it, nothing is said to be
well.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, cast

import msgspec

from mooring.apiserver.errors import Obj
from mooring.install.check import MANAGER, Cluster, Workload
from mooring.install.resources import RESOURCES
from mooring.kube.client import Client
from mooring.kube.errors import NotFound
from mooring.kube.objects import Lease
from mooring.kube.objects.meta import version_path

PAGE = 500
LEASES = ("mooring-attachdetach", "mooring-fencing")
_WORKLOADS = ("Deployment", "DaemonSet")
_STARTING = ("ContainerCreating", "PodInitializing")


async def read(client: Client, objects: Sequence[Obj]) -> Cluster:
    """`objects`: what is to be made there. Raises KubeError; Forbidden names what may not be read."""
    pods = [each async for each in listed(client, "/api/v1/pods")]
    return Cluster(
        version=str((await get(client, "/version")).get("gitVersion", "")),
        apis=await _apis(client),
        unserved=[each async for each in _unserved(client, objects)],
        managers=_managers(pods),
        workloads=[
            _workload(kind, each, pods)
            for kind in _WORKLOADS
            async for each in listed(client, RESOURCES[kind].path())
        ],
        denied=[right async for right in _denied(client, objects)],
        kinds={
            each["metadata"]["name"]: each["spec"]
            async for each in listed(client, RESOURCES["CustomResourceDefinition"].path())
            if each["spec"]["group"] == "fencing.mooring.dev"
        },
        holders={name: holder for name in LEASES if (holder := await _holder(client, name))},
        drivers={
            each["metadata"]["name"]: each["metadata"].get("labels", {})
            async for each in listed(client, RESOURCES["CSIDriver"].path())
        },
    )


async def listed(client: Client, path: str, label_selector: str = "") -> AsyncIterator[dict[str, Any]]:
    """All objects of a kind, page by page; none where the server does not have the kind."""
    query, token = [("limit", str(PAGE))], ""
    query += [("labelSelector", label_selector)] if label_selector else []
    while True:
        try:
            page = await get(client, path, [*query, *([("continue", token)] if token else [])])
        except NotFound:
            return
        for each in page.get("items") or ():
            yield each
        token = page.get("metadata", {}).get("continue", "")
        if not token:
            return


async def get(client: Client, path: str, query: Sequence[tuple[str, str]] = ()) -> dict[str, Any]:
    """An answer as it is."""
    return cast(dict[str, Any], msgspec.json.decode(await client.request("GET", path, query=query)))


async def _apis(client: Client) -> frozenset[str]:
    groups = (await get(client, "/apis")).get("groups", ())
    return frozenset(each["groupVersion"] for group in groups for each in group["versions"])


async def _unserved(client: Client, objects: Sequence[Obj]) -> AsyncIterator[str]:
    """Kinds of the objects that the server does not have, though it may have others of their group."""
    wanted = {RESOURCES[each["kind"]] for each in objects}
    for group, version in sorted({(each.group, each.version) for each in wanted}):
        try:
            answer = await get(client, version_path(group, version))
            served = {each["name"] for each in answer.get("resources", ())}
        except NotFound:
            served = set[str]()
        for each in sorted(wanted):
            if (each.group, each.version) == (group, version) and each.plural not in served:
                yield f"{each.plural} of {each.api_version}"


def _managers(pods: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """The command lines of those that run as pods, by pod."""
    found: dict[str, list[str]] = {}
    for pod in pods:
        for container in pod["spec"]["containers"]:
            words = [*(container.get("command") or ()), *(container.get("args") or ())]
            if _starts_manager(words):
                found[_key(pod)] = words
    return found


def _starts_manager(words: Sequence[str]) -> bool:
    """By itself, or in a line of a shell."""
    return any(part.split("/")[-1] == MANAGER for word in words[:3] for part in word.split())


def _workload(kind: str, obj: Mapping[str, Any], pods: Sequence[Mapping[str, Any]]) -> Workload:
    metadata, template = obj["metadata"], obj["spec"]["template"]
    containers = template["spec"]["containers"]
    wanted: dict[str, str] = obj["spec"]["selector"].get("matchLabels") or {}
    mine = [
        each
        for each in pods
        if each["metadata"].get("namespace") == metadata.get("namespace")
        and wanted.items() <= (each["metadata"].get("labels") or {}).items()
    ]
    return Workload(
        kind,
        _key(obj),
        metadata.get("labels") or {},
        {each["name"]: [*(each.get("command") or ()), *(each.get("args") or ())] for each in containers},
        {each["name"]: each.get("image", "") for each in containers},
        [reason for pod in mine for reason in _waiting(pod)],
    )


def _waiting(pod: Mapping[str, Any]) -> list[str]:
    states = [
        each.get("state", {}).get("waiting") for each in pod.get("status", {}).get("containerStatuses") or ()
    ]
    return [
        f"pod {_key(pod)} waits: {each.get('reason', '')}: {str(each.get('message', ''))[:160]}"
        for each in states
        if each and each.get("reason") not in _STARTING
    ]


def _key(obj: Mapping[str, Any]) -> str:
    metadata = obj["metadata"]
    return (
        f"{metadata['namespace']}/{metadata['name']}" if metadata.get("namespace") else str(metadata["name"])
    )


async def _holder(client: Client, lease: str) -> str:
    found = await client.find(Lease, lease, "kube-system")
    return found.spec.holder_identity or "" if found is not None else ""


async def _denied(client: Client, objects: Sequence[Obj]) -> AsyncIterator[str]:
    """What `kubectl apply` would be refused."""
    places = {(RESOURCES[each["kind"]], each["metadata"].get("namespace", "")) for each in objects}
    for resource, namespace in sorted(places):
        for verb in ("get", "create", "patch"):
            asked = {
                "group": resource.group,
                "resource": resource.plural,
                "verb": verb,
                "namespace": namespace,
            }
            review = {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SelfSubjectAccessReview",
                "spec": {"resourceAttributes": asked},
            }
            path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
            answer = msgspec.json.decode(await client.request("POST", path, body=review))
            if not answer["status"].get("allowed"):
                yield f"{verb} {resource.plural}" + (f" in {namespace}" if namespace else "")
