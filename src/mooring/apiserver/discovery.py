"""Discovery: what groups, versions and resources there are, in the legacy form and in the aggregated one. Pure, from
the kinds."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from mooring.apiserver.errors import Obj
from mooring.apiserver.kinds import KINDS, Kind
from mooring.apiserver.message import Request, Response
from mooring.apiserver.store import encode

_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_SUBRESOURCES: Mapping[str, tuple[str, str, str, Sequence[str]]] = {
    "scale": ("autoscaling", "v1", "Scale", ("get", "patch", "update")),
    "binding": ("", "v1", "Binding", ("create",)),
    "eviction": ("policy", "v1", "Eviction", ("create",)),
}
"""Subresources that speak a kind of their own: its group, version and name, and the verbs."""

_OWN_VERBS: Mapping[str, Sequence[str]] = {
    "status": ("get", "patch", "update"),
    "log": ("get",),
    "finalize": ("update",),
}
_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def answer(request: Request) -> Response | None:
    """The discovery document that a path names, or None."""
    if request.path.rstrip("/") in ("/api", "/apis") and _wants_aggregated(request.headers.get("accept", "")):
        return Response(200, {"content-type": _AGGREGATED}, _aggregated(core=request.path.rstrip("/") == "/api"))
    document = _legacy().get(request.path.rstrip("/"))
    return None if document is None else Response(200, {"content-type": "application/json"}, document)


def _wants_aggregated(accept: str) -> bool:
    options = [alternative.replace(" ", "") for alternative in accept.split(",")]
    return any(
        each.startswith("application/json") and "as=APIGroupDiscoveryList" in each and "v=v2" in each.split(";")
        for each in options
    )


def _groups() -> dict[str, list[Kind]]:
    groups: dict[str, list[Kind]] = {}
    for kind in KINDS:
        groups.setdefault(kind.group, []).append(kind)
    return groups


@cache
def _aggregated(*, core: bool) -> bytes:
    items = [_aggregated_group(group, kinds) for group, kinds in _groups().items() if (group == "") == core]
    return encode(
        {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}
    )


def _aggregated_group(group: str, kinds: Iterable[Kind]) -> Obj:
    resources = [_aggregated_resource(kind) for kind in kinds]
    version = {"version": "v1", "resources": resources, "freshness": "Current"}
    return {"metadata": {"name": group, "creationTimestamp": None}, "versions": [version]}


def _aggregated_resource(kind: Kind) -> Obj:
    resource: Obj = {
        "resource": kind.plural,
        "responseKind": {"group": kind.group, "version": kind.version, "kind": kind.name},
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": _VERBS,
        "shortNames": kind.short_names,
        "categories": kind.categories,
        "subresources": [_aggregated_subresource(kind, name) for name in sorted(kind.subresources)],
    }
    return {key: value for key, value in resource.items() if value not in ((), [])}


def _aggregated_subresource(kind: Kind, name: str) -> Obj:
    group, version, spoken, verbs = _spoken(kind, name)
    return {
        "subresource": name,
        "responseKind": {"group": group, "version": version, "kind": spoken},
        "verbs": verbs,
    }


def _spoken(kind: Kind, subresource: str) -> tuple[str, str, str, Sequence[str]]:
    own = (kind.group, kind.version, kind.name, _OWN_VERBS.get(subresource, ()))
    return _SUBRESOURCES.get(subresource, own)


@cache
def _legacy() -> Mapping[str, bytes]:
    documents: dict[str, Obj] = {
        "/api": {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []},
        "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(name) for name in _groups() if name]},
    }
    for name, kinds in _groups().items():
        path = f"/apis/{name}" if name else "/api"
        if name:
            documents[path] = {"kind": "APIGroup", "apiVersion": "v1", **_group(name)}
        documents[f"{path}/v1"] = {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": kinds[0].api_version,
            "resources": [entry for kind in kinds for entry in _legacy_resources(kind)],
        }
    return {path: encode(document) for path, document in documents.items()}


def _group(name: str) -> Obj:
    version = {"groupVersion": f"{name}/v1", "version": "v1"}
    return {"name": name, "versions": [version], "preferredVersion": version}


def _legacy_resources(kind: Kind) -> list[Obj]:
    own: Obj = {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.name,
        "verbs": _VERBS,
        "shortNames": kind.short_names,
        "categories": kind.categories,
    }
    entries = [{key: value for key, value in own.items() if value != ()}]
    for name in sorted(kind.subresources):
        group, version, spoken, verbs = _spoken(kind, name)
        entry: Obj = {"name": f"{kind.plural}/{name}", "singularName": "", "namespaced": kind.namespaced}
        entries.append(entry | {"group": group, "version": version, "kind": spoken, "verbs": verbs})
    return entries
