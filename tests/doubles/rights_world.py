"""Two nodes, each with a pod and all that it needs, to ask what the one may do with what is the other's.

Plain values and paths: the same world is made on the embedded server and on a real kube-apiserver. Whatever
belongs to the other node, or to none, carries MARK, so that an answer that shows some of it is known at
sight.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from mooring.apiserver import Request, Server, User
from mooring.apiserver.objects.kinds import KINDS, Kind

Obj = dict[str, Any]
Answer = tuple[int, Any]
Send = Callable[..., Awaitable[Answer]]
"""`await send(user, method, path, body, query, content_type)`: status and decoded body."""

OWN, OTHER = "n1", "n2"
MARK = "not-for-n1"
HIDDEN = base64.b64encode(MARK.encode()).decode()
CORE, DEFAULT, STORAGE = "/api/v1", "/api/v1/namespaces/default", "/apis/storage.k8s.io/v1"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
MIRROR = "kubernetes.io/config.mirror"

VERBS = {
    "get": "GET", "list": "GET", "watch": "GET", "create": "POST", "update": "PUT", "patch": "PATCH",
    "delete": "DELETE", "deletecollection": "DELETE",
}  # fmt: skip
DRY = [("dryRun", "All")]

COLLECTIONS = {
    "nodes": f"{CORE}/nodes",
    "pods": f"{DEFAULT}/pods",
    "secrets": f"{DEFAULT}/secrets",
    "configmaps": f"{DEFAULT}/configmaps",
    "serviceaccounts": f"{DEFAULT}/serviceaccounts",
    "persistentvolumeclaims": f"{DEFAULT}/persistentvolumeclaims",
    "persistentvolumes": f"{CORE}/persistentvolumes",
    "volumeattachments": f"{STORAGE}/volumeattachments",
    "csinodes": f"{STORAGE}/csinodes",
    "leases": LEASES,
    "resourceslices": "/apis/resource.k8s.io/v1/resourceslices",
}
"""Where what the world has is."""

NAMES = {
    "pods": "{}-pod", "secrets": "{}-secret", "configmaps": "{}-config", "serviceaccounts": "{}-account",
    "persistentvolumeclaims": "{}-claim", "persistentvolumes": "{}-volume", "volumeattachments": "{}-attachment",
    "nodes": "{}", "csinodes": "{}", "leases": "{}",
    "resourceslices": "{}-slice",
}  # fmt: skip


def name_of(plural: str, node: str) -> str:
    """The object of a kind that belongs to a node; of a kind that the world has none of, one that is not
    there."""
    return NAMES.get(plural, "{}-thing").format(node)


def objects(node: str) -> Iterator[tuple[str, Obj]]:
    """Collection and body of everything that a node and its pod have."""
    mark = {} if node == OWN else {"annotations": {"mark": MARK}}

    def named(plural: str, name: str = "", **body: Any) -> tuple[str, Obj]:
        meta = {"name": name or name_of(plural, node), **mark}
        return COLLECTIONS[plural], {"metadata": meta, **body}

    data = {"data": {"key": HIDDEN if node == OTHER else ""}}
    yield named("nodes")
    for each in ("secret", "stage", "publish", "image", "env"):
        yield named("secrets", f"{node}-{each}", **data)
    yield named("secrets", f"{node}-controller", data={"key": HIDDEN})  # what only a controller needs
    yield named("configmaps", data={"key": MARK if node == OTHER else ""})
    yield named("serviceaccounts")
    claimed = {
        "storageClassName": "",
        "volumeName": f"{node}-volume",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    yield named("persistentvolumeclaims", spec={"accessModes": ["ReadWriteOnce"], **claimed})
    yield named("persistentvolumes", spec=_volume(node))
    yield named("pods", spec=_pod(node))
    source = {"persistentVolumeName": f"{node}-volume"}
    yield named("volumeattachments", spec={"attacher": "d.example.com", "nodeName": node, "source": source})
    yield named("csinodes", spec={"drivers": []})
    yield named("leases", spec={"holderIdentity": node})
    yield named("resourceslices", spec=_slice(node))


def unrelated() -> Iterator[tuple[str, Obj]]:
    """What belongs to no node."""
    meta = {"name": "free-secret", "annotations": {"mark": MARK}}
    yield COLLECTIONS["secrets"], {"metadata": meta, "data": {"key": HIDDEN}}
    yield COLLECTIONS["configmaps"], {"metadata": {**meta, "name": "free-config"}, "data": {"key": MARK}}
    pod = {"containers": [{"name": "c", "image": "i"}]}
    yield COLLECTIONS["pods"], {"metadata": {**meta, "name": "free-pod"}, "spec": pod}


def mirror(node: str, uid: str, name: str = "static", **spec: Any) -> Obj:
    """A mirror pod of a node."""
    owner = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid, "controller": True}
    meta = {"name": f"{name}-{node}", "annotations": {MIRROR: "hash"}, "ownerReferences": [owner]}
    return {"metadata": meta, "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}], **spec}}


def _volume(node: str) -> Obj:
    def secret(name: str) -> Obj:
        return {"name": f"{node}-{name}", "namespace": "default"}

    references = {
        "nodeStageSecretRef": secret("stage"),
        "nodePublishSecretRef": secret("publish"),
        "controllerPublishSecretRef": secret("controller"),
    }
    return {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "claimRef": {"namespace": "default", "name": f"{node}-claim"},
        "csi": {"driver": "d.example.com", "volumeHandle": node, **references},
    }


def _slice(node: str) -> Obj:
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    return {"driver": "d.example.com", "nodeName": node, "pool": pool}


def _pod(node: str) -> Obj:
    variable = {"name": "A", "valueFrom": {"secretKeyRef": {"name": f"{node}-env", "key": "key"}}}
    container = {
        "name": "c",
        "image": "i",
        "env": [variable],
        "envFrom": [{"configMapRef": {"name": f"{node}-config"}}],
    }
    return {
        "nodeName": node,
        "serviceAccountName": f"{node}-account",
        "imagePullSecrets": [{"name": f"{node}-image"}],
        "containers": [container],
        "volumes": [
            {"name": "data", "persistentVolumeClaim": {"claimName": f"{node}-claim"}},
            {"name": "keys", "secret": {"secretName": f"{node}-secret"}},
        ],
    }


async def make(admin: Send) -> str:
    """Makes the world by `admin(method, path, body)`; the uid of the own Node."""
    uid = ""
    for path, body in (*objects(OWN), *objects(OTHER), *unrelated()):
        status, made = await admin("POST", path, body)
        assert status == 201, (path, body, status, made)
        uid = uid or made["metadata"]["uid"]
    return uid


def collection(kind: Kind) -> str:
    """The path of a kind, in the default namespace or in that of Leases."""
    if kind.plural in COLLECTIONS and kind.group != "events.k8s.io":
        return COLLECTIONS[kind.plural]
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else "/api/v1"
    return f"{root}/namespaces/default/{kind.plural}" if kind.namespaced else f"{root}/{kind.plural}"


async def send(
    server: Server, user: User, method: str, path: str, body: Any = None, query: Any = (), content: str = ""
) -> Answer:
    """Asks the embedded server; of a watch, what it shows first."""
    headers = {"content-type": content} if content else {}
    data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = await server.handle(Request(method, path, list(query), headers, data, user))
    if answer.stream is None:
        return answer.status, json.loads(answer.body) if answer.body[:1] in (
            b"{",
            b"[",
        ) else answer.body.decode()
    first = b""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(0.05):
            first = await anext(answer.stream, b"")
    await answer.stream.aclose()  # type: ignore[attr-defined]
    return answer.status, first.decode()


def rows() -> Iterator[tuple[Kind, str, str]]:
    """Every kind, its subresources ("" for itself), and every verb that its path can have."""
    for kind in KINDS:
        for subresource in ("", *sorted(kind.subresources)):
            posted = subresource in ("binding", "eviction")
            verbs = ["create"] if posted else ["get", "update", "patch"] if subresource else list(VERBS)
            yield from ((kind, subresource, verb) for verb in verbs)


def body_of(kind: Kind, subresource: str, verb: str, node: str, uid: str) -> Any:
    """What such a request carries."""
    name = name_of(kind.plural, node)
    if kind.plural == "pods" and verb == "create" and not subresource:
        return mirror(node, uid)
    if kind.plural == "resourceslices" and verb == "create":
        return {"metadata": {"name": f"{name}-2"}, "spec": _slice(node)}
    if subresource == "eviction":
        return {"metadata": {"name": name, "namespace": "default"}}
    if verb == "patch":
        return (
            {"status": {"conditions": []}}
            if subresource == "status"
            else {"metadata": {"annotations": {"a": "b"}}}
        )
    return {"metadata": {"name": name}}


def request_of(kind: Kind, subresource: str, verb: str, node: str, uid: str) -> tuple[Any, ...]:
    """Method, path, body, query and content type; what reads many selects one by its name."""
    name, path = name_of(kind.plural, node), collection(kind)
    query = [] if verb in ("get", "list", "watch") else list(DRY)
    if kind.plural == "resourceslices" and verb in ("list", "watch", "deletecollection"):
        query += [("fieldSelector", f"spec.nodeName={node}"), *([("watch", "1")] if verb == "watch" else [])]
    elif verb in ("list", "watch"):
        query += [("fieldSelector", f"metadata.name={name}"), *([("watch", "1")] if verb == "watch" else [])]
    elif (verb != "create" or subresource) and verb != "deletecollection":
        path += f"/{name}" + (f"/{subresource}" if subresource else "")
    body = None if VERBS[verb] == "GET" else body_of(kind, subresource, verb, node, uid)
    content = "application/merge-patch+json" if verb == "patch" else ""
    return VERBS[verb], path, body, query, content
