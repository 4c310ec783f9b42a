"""Subresources that are more than a view of the object: binding, eviction, scale, finalize, log, ephemeral
containers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from copy import deepcopy
from dataclasses import dataclass, replace

import msgspec

from mooring.apiserver.encodings.body import read_object
from mooring.apiserver.encodings.negotiation import negotiate
from mooring.apiserver.errors import (
    BadRequest,
    NotImplementedYet,
    Obj,
    Resource,
    Unclassified,
    conflict,
    invalid,
    invalid_value,
    not_found,
    required,
    unsupported,
)
from mooring.apiserver.message import Request, Response
from mooring.apiserver.objects import metadata
from mooring.apiserver.objects.deletion import parse_options
from mooring.apiserver.objects.kinds import Kind
from mooring.apiserver.objects.strategies.cluster import with_finalizers
from mooring.apiserver.objects.strategies.pods import EphemeralContainers
from mooring.apiserver.requests import eviction
from mooring.apiserver.requests.reads import respond
from mooring.apiserver.requests.write_request import is_dry_run, patch_of, read_sent, settle_namespace
from mooring.apiserver.requests.writes import Writer
from mooring.apiserver.routes import Route
from mooring.apiserver.store.history import Item
from mooring.apiserver.store.object_store import decode, encode
from mooring.apiserver.values.dotted import list_at, object_at, objects_at, strings_at, text_at, value_at
from mooring.apiserver.values.timestamps import stamp
from mooring.kube.selectors import label_selector_from_object

_CREATED: Obj = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
_BUDGETS = "poddisruptionbudgets.policy"

PodLogs = Callable[[Request, Obj], Awaitable[Response]]
"""Answers a request for the log of a pod, with a body or a stream of text."""


async def no_pod_logs(request: Request, pod: Obj) -> Response:
    """Refuses: this server has no way to fetch logs."""
    name = text_at(pod, "metadata.name")
    raise NotImplementedYet(f'the log of pod "{name}" is kept by its node; this server does not fetch it yet')


@dataclass(frozen=True, slots=True)
class Subresources:
    """Carries the special subresources out, through the same writer as everything else."""

    writer: Writer
    pod_logs: PodLogs

    async def bind(self, request: Request, route: Route) -> Response:
        """Binds the pod of the path, or of the body, to a node, once: 409 if it is bound or being deleted."""
        sent = read_object(request.body, request.headers.get("content-type", ""))
        settle_namespace(metadata.of(sent), route)
        route = msgspec.structs.replace(route, name=route.name or text_at(sent, "metadata.name"))
        if not route.name:
            raise BadRequest("Name parameter required.")
        _check_binding(route, sent)
        node = text_at(sent, "target.name")
        head = self._head(request, route)
        pod = decode(head.body)
        _check_bindable(route, pod, sent)
        bound = _bound(pod, node, sent, stamp(self.writer.now()))
        await self.writer.replace(route.kind, head, decode(head.body), bound, dry_run=is_dry_run(request))
        return respond(201, encode(_CREATED), negotiate(""))

    async def evict(self, request: Request, route: Route) -> Response:
        """Deletes a pod as its disruption budgets allow: 429 if they do not."""
        sent = read_object(request.body, request.headers.get("content-type", ""))
        if text_at(sent, "metadata.name") not in ("", route.name):
            raise BadRequest("name in URL does not match name in Eviction object")
        options = parse_options(
            object_at(sent, "deleteOptions"), {"dryRun": "All"} if is_dry_run(request) else {}
        )
        pod = decode(self._head(request, route).body)
        if eviction.needs_budget(pod):
            await self._spend(pod, dry_run=options.dry_run)
        await self.writer.delete_with(request, route, options)
        return respond(201, encode(_CREATED), negotiate(""))

    async def _spend(self, pod: Obj, *, dry_run: bool) -> None:
        """Takes the eviction of `pod` from its budget. Raises TooManyRequests."""
        store = self.writer.store
        budget = eviction.budget_for(pod, [decode(item.body) for item in store.heads(_BUDGETS)])
        if budget is None:
            return
        after = eviction.spent(budget, pod, stamp(self.writer.now()))
        if after is not None and not dry_run:
            key = (text_at(budget, "metadata.namespace"), text_at(budget, "metadata.name"))
            await store.write(_BUDGETS, key, after)

    async def get_scale(self, request: Request, route: Route) -> Response:
        """How many replicas are wanted and how many there are."""
        item = self.writer.store.get(route.kind.storage, (route.namespace, route.name))
        if item is None:
            raise not_found(route.kind.resource, route.name)
        return respond(200, encode(scale_of(route.kind, decode(item.body))), negotiate(""))

    async def set_scale(self, request: Request, route: Route) -> Response:
        """Changes how many replicas are wanted, by PUT or PATCH of the Scale."""
        head = self._head(request, route)
        old = decode(head.body)
        if route.verb == "patch":
            sent = patch_of(request)(route.kind, scale_of(route.kind, old))
        else:
            sent = read_object(request.body, request.headers.get("content-type", ""))
        version = text_at(metadata.of(sent), "resourceVersion")
        if version and version != str(head.version):
            raise conflict(route.kind.resource, route.name)
        replicas = value_at(sent, "spec.replicas")
        if isinstance(replicas, int) and replicas < 0:
            error = invalid_value("spec.replicas", replicas, "must be greater than or equal to 0")
            raise invalid("autoscaling", "Scale", route.name, [error])
        wanted = _scaled(route.kind, old, 0 if replicas is None else replicas)
        item = await self.writer.revise(request, route, head, lambda _: wanted)
        return respond(200, encode(scale_of(route.kind, decode(item.body))), negotiate(""))

    async def finalize(self, request: Request, route: Route) -> Response:
        """Sets a namespace's own finalizers; the namespace goes when it is being deleted and the last one is
        gone."""
        head = self._head(request, route)
        sent = read_sent(request, route.kind)
        version = text_at(metadata.of(sent), "resourceVersion")
        if version and version != str(head.version):
            raise conflict(route.kind.resource, route.name)
        old = decode(head.body)
        new = {**old, "spec": with_finalizers(old, list_at(sent, "spec.finalizers"))}
        item = await self.writer.replace(route.kind, head, old, new, dry_run=is_dry_run(request))
        return self.writer.answer(request, route.kind, item)

    async def update_ephemeral_containers(self, request: Request, route: Route) -> Response:
        """Adds ephemeral containers to a pod, by PUT of the pod."""
        return await self.writer.update(request, _through_ephemeral_containers(route))

    async def patch_ephemeral_containers(self, request: Request, route: Route) -> Response:
        """Adds ephemeral containers to a pod, by PATCH of the pod."""
        return await self.writer.patch(request, _through_ephemeral_containers(route))

    async def log(self, request: Request, route: Route) -> Response:
        """What a pod's container wrote, from the node that keeps it."""
        return await self.pod_logs(request, decode(self._head(request, route).body))

    def _head(self, request: Request, route: Route) -> Item:
        head = self.writer.head(request, route)
        if head is None:
            raise not_found(route.kind.resource, route.name)
        return head


def _through_ephemeral_containers(route: Route) -> Route:
    kind = replace(route.kind, strategy=EphemeralContainers())
    return msgspec.structs.replace(route, kind=kind)


def _check_binding(route: Route, binding: Obj) -> None:
    if text_at(binding, "metadata.name") not in ("", route.name):
        raise BadRequest("name in URL does not match name in Binding object")
    if (kind := text_at(binding, "target.kind")) not in ("", "Node"):
        raise Unclassified(str(unsupported("target.kind", kind, ["Node", "<empty>"])))
    if not text_at(binding, "target.name"):
        raise Unclassified(str(required("target.name")))


def _check_bindable(route: Route, pod: Obj, binding: Obj) -> None:
    resource, meta = Resource("", "pods/binding"), pod["metadata"]
    uid = text_at(binding, "metadata.uid")
    if uid and uid != meta["uid"]:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {meta['uid']}"
        raise conflict(resource, route.name, why)
    if meta.get("deletionTimestamp"):
        raise conflict(
            resource, route.name, f"pod {route.name} is being deleted, cannot be assigned to a host"
        )
    if node := text_at(pod, "spec.nodeName"):
        raise conflict(resource, route.name, f'pod {route.name} is already assigned to node "{node}"')


def _bound(pod: Obj, node: str, binding: Obj, now: str) -> Obj:
    pod["spec"]["nodeName"] = node
    annotations = strings_at(pod, "metadata.annotations") | strings_at(binding, "metadata.annotations")
    if annotations:
        pod["metadata"]["annotations"] = annotations
    kept = [each for each in objects_at(pod, "status.conditions") if each.get("type") != "PodScheduled"]
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": now}
    pod["status"]["conditions"] = [*kept, scheduled]
    return pod


def scale_of(kind: Kind, workload: Obj) -> Obj:
    """The autoscaling/v1 Scale of a workload."""
    names = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    status: Obj = {"replicas": _number_at(workload, _observed_path(kind))}
    selector = _selector_of(kind, workload)
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: workload["metadata"][name] for name in names if name in workload["metadata"]},
        "spec": {"replicas": _number_at(workload, _wanted_path(kind))},
        "status": status | ({"selector": selector} if selector else {}),
    }


def _wanted_path(kind: Kind) -> str:
    return kind.custom.wanted_path.lstrip(".") if kind.custom else "spec.replicas"


def _observed_path(kind: Kind) -> str:
    return kind.custom.observed_path.lstrip(".") if kind.custom else "status.replicas"


def _number_at(workload: Obj, path: str) -> int:
    return value_at(workload, path) or 0


def _selector_of(kind: Kind, workload: Obj) -> str:
    if kind.custom:
        return text_at(workload, kind.custom.selector_path.lstrip(".")) if kind.custom.selector_path else ""
    selector = object_at(workload, "spec.selector")
    named = {"matchLabels": selector} if kind.name == "ReplicationController" else selector
    return str(label_selector_from_object(named))


def _scaled(kind: Kind, workload: Obj, replicas: object) -> Obj:
    """A copy of a workload that wants another number of replicas."""
    *parents, last = _wanted_path(kind).split(".")
    scaled = deepcopy(workload)
    node = scaled
    for parent in parents:
        node = node.setdefault(parent, {})
    node[last] = replicas
    return scaled
