"""Subresources that are more than a view of the object: binding, eviction, scale, finalize, log."""

from dataclasses import dataclass

from mooring.apiserver.body import read_object
from mooring.apiserver.deletion import DeleteOptions
from mooring.apiserver.dotted import objects_at, strings_at, text_at
from mooring.apiserver.errors import BadRequest, NotImplementedYet, Obj, Resource, conflict, not_found
from mooring.apiserver.history import Item
from mooring.apiserver.message import Request, Response
from mooring.apiserver.negotiation import negotiate
from mooring.apiserver.reading import respond
from mooring.apiserver.routes import Route
from mooring.apiserver.store import decode, encode
from mooring.apiserver.times import stamp
from mooring.apiserver.writing import Writer, delete_options, is_dry_run

_CREATED: Obj = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


@dataclass(frozen=True, slots=True)
class Subresources:
    """Carries the special subresources out, through the same writer as everything else."""

    writer: Writer

    def _head(self, route: Route) -> Item:
        head = self.writer.store.head(route.kind.storage, (route.namespace, route.name))
        if head is None:
            raise not_found(route.kind.resource, route.name)
        return head

    async def bind(self, request: Request, route: Route) -> Response:
        """Bind a pod to a node, once: 409 if it is bound or being deleted."""
        sent = read_object(request.body, request.headers.get("content-type", ""))
        node = text_at(sent, "target.name")
        if not node:
            raise BadRequest("a Binding needs target.name, the node's name")
        head = self._head(route)
        pod = decode(head.body)
        _check_bindable(route, pod, sent)
        bound = _bound(pod, node, sent, stamp(self.writer.now()))
        await self.writer.replace(route.kind, head, decode(head.body), bound, dry_run=is_dry_run(request))
        return respond(201, encode(_CREATED), negotiate(""))

    async def log(self, request: Request, route: Route) -> Response:
        """The seam where a node agent's logs will be fetched."""
        self._head(route)
        raise NotImplementedYet(
            f'the log of pod "{route.name}" is kept by its node agent; this server does not fetch it yet'
        )

    async def evict(self, request: Request, route: Route) -> Response:
        """Delete a pod as its disruption budgets allow."""
        options = delete_options(request)
        await self.writer.delete_with(request, route, DeleteOptions(grace=options.grace))
        return respond(201, encode(_CREATED), negotiate(""))


def _check_bindable(route: Route, pod: Obj, binding: Obj) -> None:
    resource, meta = Resource("", "pods/binding"), pod["metadata"]
    uid = text_at(binding, "metadata.uid")
    if uid and uid != meta["uid"]:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {meta['uid']}"
        raise conflict(resource, route.name, why)
    if meta.get("deletionTimestamp"):
        raise conflict(resource, route.name, f"pod {route.name} is being deleted, cannot be assigned to a host")
    if node := text_at(pod, "spec.nodeName"):
        raise conflict(resource, route.name, f'pod {route.name} is already assigned to node "{node}"')


def _bound(pod: Obj, node: str, binding: Obj, now: str) -> Obj:
    pod["spec"]["nodeName"] = node
    annotations = strings_at(pod, "metadata.annotations") | strings_at(binding, "metadata.annotations")
    if annotations:
        pod["metadata"]["annotations"] = annotations
    kept = [each for each in objects_at(pod, "status.conditions") if each.get("type") != "PodScheduled"]
    scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
    pod["status"]["conditions"] = [*kept, scheduled]
    return pod
