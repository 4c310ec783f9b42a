"""Takes all of Mooring out of a cluster: what works first, then its marks on others' objects, then the rest.

Each object is deleted as the one that was read (its uid is the precondition), each mark is taken off the very
version that was read. What is interrupted is finished by a second call. Nothing is begun while something
stands in its way (`remains.refusals`), and no mark is taken off while a controller may still write one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from mooring.install.cluster import LEASES, get, listed
from mooring.install.components import OURS, PART_OF
from mooring.install.remains import Remains, refusals, unmarked
from mooring.install.resources import RESOURCES
from mooring.kube.client import PATCH_TYPES, Client
from mooring.kube.errors import Conflict, NotFound
from mooring.kube.objects import (
    Lease,
    Node,
    Object,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    VolumeAttachment,
)
from mooring.kube.objects.fencing import GROUP, NodeFence
from mooring.kube.printable import counted

Say = Callable[[str], None]
MARKED: tuple[type[Object], ...] = (PersistentVolume, VolumeAttachment, Node, PersistentVolumeClaim, Pod)
WORKLOADS = ("Deployment", "DaemonSet")
ATTEMPTS = 5
LEASE_S = 15.0
"""How long a Lease lasts that does not say it."""
_KIND_OF_FENCES = "CustomResourceDefinition"
_FAILED = "InstanceDeletionFailed"
_REMINDER = "mooring.dev/uninstall-seconds-left"
_LOOKS_AGAIN_S = 0.25


class Refused(Exception):
    """Something stands in the way, or a part does not end; the message says what, and what to do."""


async def read(client: Client) -> Remains:
    """What there is. Raises KubeError."""
    installed = [each async for each in _installed(client)]
    objects = [each for kind in MARKED for each in (await client.list(kind)).items]
    fences = await _fences(client)
    return Remains(installed, objects, fences)


async def _installed(client: Client) -> AsyncIterator[tuple[str, str, str, str]]:
    for kind, resource in RESOURCES.items():
        labelled = f"{PART_OF}={OURS}"
        # `mooring fence kinds` prints the kinds without a label.
        of_fences = kind == _KIND_OF_FENCES
        async for each in listed(client, resource.path(), "" if of_fences else labelled):
            if not of_fences or each["spec"]["group"] == GROUP:
                metadata = each["metadata"]
                yield kind, str(metadata.get("namespace", "")), str(metadata["name"]), str(metadata["uid"])


async def _fences(client: Client) -> list[NodeFence]:
    try:
        return (await client.list(NodeFence)).items
    except NotFound:
        return []


def planned(remains: Remains) -> list[str]:
    """What would be done, a line each."""
    marked = [each for each in remains.objects if unmarked(each) is not None]
    kinds = sorted({type(each).RESOURCE.plural for each in marked})
    return [
        *(f"delete {RESOURCES[kind].plural}/{name}" + (f" in {space}" if space else "")
          for kind, space, name, _ in remains.installed),
        *([f"take our marks off {counted(len(marked), 'object')} ({', '.join(kinds)})"] if marked else []),
    ]  # fmt: skip


async def uninstall(
    client: Client, say: Say, *, nothing_runs: bool = False, patience_s: float = 120.0
) -> None:
    """Raises Refused, with nothing changed if something stands in the way; KubeError."""
    remains = await read(client)
    if refused := refusals(remains, nothing_runs=nothing_runs):
        raise Refused("; ".join(refused))
    selectors = [await _selector(client, each) for each in remains.installed if each[0] in WORKLOADS]
    for each in remains.installed:
        if each[0] in WORKLOADS:
            await _delete(client, each, say)
    for namespace, selector in selectors:
        await _ended(client, namespace, selector, patience_s)
    for name in LEASES:
        await _given_up(client, name)
    for each in (await read(client)).objects:
        await _unmark(client, each, say)
    for fence in await _fences(client):
        await _unmark(client, fence, say)
    for each in remains.installed:
        if each[0] not in WORKLOADS:
            await _delete(client, each, say)
    for each in remains.installed:
        if each[0] == _KIND_OF_FENCES:
            await _gone(client, each, patience_s)


async def _selector(client: Client, workload: tuple[str, str, str, str]) -> tuple[str, str]:
    kind, namespace, name, _ = workload
    labels: Mapping[str, str] = (await get(client, RESOURCES[kind].path(namespace, name)))["spec"][
        "selector"
    ]["matchLabels"]
    return namespace, ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


async def _delete(client: Client, which: tuple[str, str, str, str], say: Say) -> None:
    kind, namespace, name, uid = which
    body: dict[str, Any] = {"preconditions": {"uid": uid}, "propagationPolicy": "Background"}
    try:
        await client.request("DELETE", RESOURCES[kind].path(namespace, name), body=body)
        say(f"{RESOURCES[kind].plural}/{name} deleted")
    except (NotFound, Conflict):
        say(f"{RESOURCES[kind].plural}/{name} is another one by now, or gone")


async def _gone(client: Client, definition: tuple[str, str, str, str], patience_s: float) -> None:
    """Waits until the API server has ended a kind, which it does once its last object is gone: until then it
    takes neither objects of that kind nor the kind itself anew."""
    kind, _, name, uid = definition
    path, deadline = RESOURCES[kind].path("", name), asyncio.get_running_loop().time() + patience_s
    while (found := await _find(client, path)) and found["metadata"]["uid"] == uid:
        reason, message = _termination(found)
        if asyncio.get_running_loop().time() > deadline:
            raise Refused(
                f"{RESOURCES[kind].plural}/{name} has not ended after {patience_s:.0f} s ({message}): look for a "
                f"finalizer in `kubectl get {name} -o yaml`. All else is done; call uninstall again"
            )
        await asyncio.sleep(_LOOKS_AGAIN_S)
        if reason == _FAILED:
            await _remind(client, path, uid, deadline)


async def _remind(client: Client, path: str, uid: str, deadline: float) -> None:
    """Has the API server try again what failed. Right after a kind was made, it cannot list its objects yet
    ("storage is (re)initializing"), and tries again by a backoff of minutes; any write makes it look."""
    left_s = f"{deadline - asyncio.get_running_loop().time():.1f}"
    patch = {"metadata": {"uid": uid, "annotations": {_REMINDER: left_s}}}
    try:
        await client.request("PATCH", path, body=patch, content_type=PATCH_TYPES["merge"])
    except (NotFound, Conflict):
        return


def _termination(definition: Mapping[str, Any]) -> tuple[str, str]:
    """Reason and message of what the server says about a kind's end."""
    for each in definition.get("status", {}).get("conditions") or ():
        if each["type"] == "Terminating":
            return str(each.get("reason", "")), str(each.get("message", ""))
    return "", "it has not begun"


async def _find(client: Client, path: str) -> dict[str, Any] | None:
    try:
        return await get(client, path)
    except NotFound:
        return None


async def _ended(client: Client, namespace: str, selector: str, patience_s: float) -> None:
    """Waits until no pod of a workload is left."""
    deadline = asyncio.get_running_loop().time() + patience_s
    while pods := (await client.list(Pod, namespace, label_selector=selector)).items:
        if asyncio.get_running_loop().time() > deadline:
            where = ", ".join(f"{each.key} on {each.spec.node_name or 'no node'}" for each in pods[:5])
            raise Refused(
                f"these pods have not ended after {patience_s:.0f} s: {where}. No mark was taken off; look at "
                "their nodes, and call uninstall again"
            )
        await asyncio.sleep(0.5)


async def _given_up(client: Client, name: str) -> None:
    """Deletes the Lease of a controller that has ended; one that is renewed belongs to one that has not. A
    renewal may be late for as long as the Lease lasts: until then its holder works."""
    first = await client.find(Lease, name, "kube-system")
    if first is None:
        return
    loop = asyncio.get_running_loop()
    until = (
        loop.time() + (first.spec.lease_duration_seconds or LEASE_S) if first.spec.holder_identity else 0.0
    )
    while loop.time() < until:
        await asyncio.sleep(1)
        second = await client.find(Lease, name, "kube-system")
        if second is not None and second.metadata.resource_version != first.metadata.resource_version:
            raise Refused(
                f"the Lease kube-system/{name} is renewed by {second.spec.holder_identity}: `mooring controller` runs "
                "somewhere else too; end it, and call uninstall again. No mark was taken off"
            )
    version = first.metadata.resource_version
    try:
        await client.delete(Lease, name, "kube-system", uid=first.uid, resource_version=version)
    except NotFound:
        return


async def _unmark(client: Client, read: Object, say: Say) -> None:
    """Takes our marks off; an object that changes meanwhile is read anew."""
    found: Object | None = read
    for _ in range(ATTEMPTS):
        patch = unmarked(found) if found is not None else None
        if found is None or patch is None:
            return
        try:
            await client.revise(found, patch)
            say(f"{type(found).RESOURCE.plural}/{found.name}: our marks are off")
            return
        except Conflict:
            found = await client.find(type(found), found.name, found.namespace)
        except NotFound:
            return
    raise Refused(f"{type(read).RESOURCE.plural}/{read.name} changes all the time: call uninstall again")
