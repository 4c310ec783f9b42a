"""TokenRequests: the subresource `token` of service accounts (`kubectl create token`, kubelets, CSI drivers).

The rules are upstream's (pkg/registry/core/serviceaccount/storage/token.go), with those of its admission
plugin NodeRestriction for nodes: a node gets tokens of its own pods alone, and only for audiences that these
pods name. Nothing is stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta

import msgspec

from mooring.apiserver.access.account_claims import ISSUER, Named, Subject
from mooring.apiserver.access.object_references import CLAIMS, of_pod
from mooring.apiserver.access.tokens import Tokens
from mooring.apiserver.encodings.body import read_object
from mooring.apiserver.encodings.negotiation import negotiate
from mooring.apiserver.errors import (
    BadRequest,
    FieldError,
    Obj,
    Resource,
    conflict,
    forbidden,
    invalid,
    invalid_value,
    not_found,
)
from mooring.apiserver.message import Request, Response
from mooring.apiserver.requests.reads import respond
from mooring.apiserver.requests.writes import Writer
from mooring.apiserver.routes import Route
from mooring.apiserver.store.object_store import Store, decode, encode
from mooring.apiserver.values.dotted import list_at, object_at, objects_at, text_at, value_at
from mooring.apiserver.values.timestamps import stamp

KIND, API_VERSION = "TokenRequest", "authentication.k8s.io/v1"
USUAL_S, SHORTEST_S, LONGEST_S = 3600, 600, 1 << 32
_RESOURCE = Resource("", "serviceaccounts")
_BOUND = {"Pod": "pods", "Secret": "secrets", "Node": "nodes"}
_RECREATED = "does not match the UID in record. The object might have been deleted and then recreated"


class TokenRequests:
    """Answers them from one server's store."""

    def __init__(self, writer: Writer, tokens: Tokens) -> None:
        self._writer, self._tokens = writer, tokens

    async def create(self, request: Request, route: Route) -> Response:
        """A token of the service account of the path. Raises NotFound, BadRequest, Invalid, Conflict,
        Forbidden."""
        sent = read_object(request.body, request.headers.get("content-type", ""))
        account = self._find("serviceaccounts", route.namespace, route.name)
        spec = _spec(sent)
        if errors := [*_errors(sent, spec, account)]:
            raise invalid("authentication.k8s.io", KIND, "", errors)
        if node := request.user.node_name if request.user is not None else None:
            self._admit_node(node, route, spec, list_at(sent, "spec.audiences"))
        subject = self._subject(route, account, object_at(spec, "boundObjectRef"))
        accepted = negotiate(request.headers.get("accept", ""), protobuf=True)
        return respond(201, encode(self._answer(subject, spec)), accepted)

    def _answer(self, subject: Subject, spec: Obj) -> Obj:
        now = self._writer.now()
        expires = now + timedelta(seconds=spec["expirationSeconds"])
        identity = self._writer.new_uid()
        token = self._tokens.of_accounts.sign(subject, spec["audiences"], now, expires, identity)
        return {
            "kind": KIND,
            "apiVersion": API_VERSION,
            "metadata": {
                "name": subject.serviceaccount.name,
                "namespace": subject.namespace,
                "creationTimestamp": stamp(now),
            },
            "spec": spec,
            "status": {"token": token, "expirationTimestamp": stamp(expires)},
        }

    def _find(self, resource: str, namespace: str, name: str) -> Obj:
        found = self._get(resource, namespace, name)
        if not found:
            raise not_found(Resource("", resource), name)
        return found

    @property
    def _store(self) -> Store:
        return self._writer.store

    def _subject(self, route: Route, account: Obj, reference: Obj) -> Subject:
        """The account, and what the token is to be bound to."""
        subject = Subject(route.namespace, _named(account))
        if not reference:
            return subject
        kind = text_at(reference, "kind")
        resource = _BOUND.get(kind) if text_at(reference, "apiVersion") == "v1" else None
        if resource is None:
            group, _, version = text_at(reference, "apiVersion").rpartition("/")
            raise BadRequest(f"cannot bind token to object of type {group}/{version}, Kind={kind}")
        namespace = "" if kind == "Node" else route.namespace
        bound = self._find(resource, namespace, text_at(reference, "name"))
        if kind == "Pod" and text_at(bound, "spec.serviceAccountName") != route.name:
            who = f'cannot bind token for serviceaccount "{route.name}"'
            raise BadRequest(f"{who} to pod running with different serviceaccount name.")
        uid = text_at(reference, "uid")
        if uid and uid != bound["metadata"]["uid"]:
            why = f"the UID in the bound object reference ({uid}) {_RECREATED}"
            raise conflict(Resource("", kind), text_at(reference, "name"), why)
        return msgspec.structs.replace(subject, node=self._node(bound), **{kind.lower(): _named(bound)})

    def _node(self, pod: Obj) -> Named | None:
        """The node that a pod is bound to; without a uid if it is not there."""
        name = text_at(pod, "spec.nodeName")
        item = self._store.get("nodes", ("", name)) if name else None
        return Named(name, item.uid if item is not None else "") if name else None

    def _admit_node(self, node: str, route: Route, spec: Obj, audiences: Sequence[str]) -> None:
        """Raises Forbidden unless the token is for a pod of the node, and for an audience that the pod
        names."""
        reference = object_at(spec, "boundObjectRef")
        named = text_at(reference, "name")
        if (text_at(reference, "apiVersion"), text_at(reference, "kind")) != ("v1", "Pod") or not named:
            raise forbidden(_RESOURCE, route.name, "node requested token not bound to a pod")
        uid = text_at(reference, "uid")
        if not uid:
            raise forbidden(_RESOURCE, route.name, "node requested token with a pod binding without a uid")
        pod = self._find("pods", route.namespace, named)
        if uid != pod["metadata"]["uid"]:
            why = f"the UID in the bound object reference ({uid}) {_RECREATED}"
            raise forbidden(_RESOURCE, route.name, why)
        if text_at(pod, "spec.nodeName") != node:
            raise forbidden(
                _RESOURCE, route.name, "node requested token bound to a pod scheduled on a different node"
            )
        self._admit_audience(route, pod, audiences)

    def _admit_audience(self, route: Route, pod: Obj, audiences: Sequence[str]) -> None:
        if len(audiences) > 1:
            raise forbidden(_RESOURCE, route.name, "node may only request 0 or 1 audiences")
        wanted = audiences[0] if audiences else ""
        if wanted not in self._audiences_of(pod):
            raise forbidden(_RESOURCE, route.name, f'audience "{wanted}" not found in pod spec volume')

    def _audiences_of(self, pod: Obj) -> Iterator[str]:
        """Those that the pod's volumes name: its projected tokens, and the CSI drivers of its volumes."""
        for volume in objects_at(pod, "spec.volumes"):
            for source in objects_at(volume, "projected.sources"):
                if source.get("serviceAccountToken") is not None:
                    yield text_at(source, "serviceAccountToken.audience")
        for driver in self._drivers_of(pod):
            for wanted in objects_at(
                self._get("csidrivers.storage.k8s.io", "", driver), "spec.tokenRequests"
            ):
                yield text_at(wanted, "audience")

    def _drivers_of(self, pod: Obj) -> Iterator[str]:
        """The CSI drivers of the pod's volumes, its own and its claims'; "" of a volume that has none."""
        for volume in objects_at(pod, "spec.volumes"):
            yield text_at(volume, "csi.driver")
        for resource, namespace, name in of_pod(pod):
            if resource == CLAIMS:
                bound = text_at(self._get(CLAIMS, namespace, name), "spec.volumeName")
                yield text_at(self._get("persistentvolumes", "", bound), "spec.csi.driver")

    def _get(self, resource: str, namespace: str, name: str) -> Obj:
        """The object; an empty one if it is not there."""
        item = self._store.get(resource, (namespace, name))
        return decode(item.body) if item is not None else {}


def _named(obj: Obj) -> Named:
    return Named(obj["metadata"]["name"], obj["metadata"]["uid"])


def _spec(sent: Obj) -> Obj:
    """What is asked for, with the defaults."""
    spec = dict(object_at(sent, "spec"))
    spec["audiences"] = list_at(sent, "spec.audiences") or [ISSUER]
    seconds = value_at(sent, "spec.expirationSeconds")
    spec["expirationSeconds"] = USUAL_S if seconds is None else seconds
    spec["boundObjectRef"] = value_at(sent, "spec.boundObjectRef")
    return spec


def _errors(sent: Obj, spec: Obj, account: Obj) -> Iterator[FieldError]:
    for field, what in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
        said = text_at(sent, f"metadata.{field}")
        if said and said != account["metadata"][field]:
            detail = f"must match the service account {what} if specified"
            yield invalid_value(f"metadata.{field}", said, detail)
    seconds = spec["expirationSeconds"]
    if not isinstance(seconds, int) or seconds < SHORTEST_S:
        detail = "may not specify a duration less than 10 minutes"
        yield invalid_value("spec.expirationSeconds", seconds, detail)
    elif seconds > LONGEST_S:
        detail = "may not specify a duration larger than 2^32 seconds"
        yield invalid_value("spec.expirationSeconds", seconds, detail)
