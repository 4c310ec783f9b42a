"""Discovery: what groups, versions and resources there are, in the legacy form and in the aggregated one.
Pure, from the kinds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from mooring.apiserver.errors import Obj
from mooring.apiserver.message import Request, Response
from mooring.apiserver.objects.kinds import Kind, Kinds
from mooring.apiserver.requests.access_reviews import REVIEWS
from mooring.apiserver.store.object_store import encode

_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_CREATED_ONLY = (*REVIEWS, Kind("", "v1", "Binding", "bindings"))
_SUBRESOURCES: Mapping[str, tuple[str, str, str, Sequence[str]]] = {
    "scale": ("autoscaling", "v1", "Scale", ("get", "patch", "update")),
    "binding": ("", "v1", "Binding", ("create",)),
    "eviction": ("policy", "v1", "Eviction", ("create",)),
    "token": ("authentication.k8s.io", "v1", "TokenRequest", ("create",)),
}
"""Subresources that speak a kind of their own: its group, version and name, and the verbs."""

_OWN_VERBS: Mapping[str, Sequence[str]] = {
    "status": ("get", "patch", "update"),
    "ephemeralcontainers": ("get", "patch", "update"),
    "log": ("get",),
    "finalize": ("update",),
}
_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def answer(request: Request, kinds: Kinds) -> Response | None:
    """The discovery document that a path names, or None."""
    path = request.path.rstrip("/")
    if path in ("/api", "/apis") and _wants_aggregated(request.headers.get("accept", "")):
        return Response(200, {"content-type": _AGGREGATED}, _aggregated(kinds, core=path == "/api"))
    if not path.startswith("/api"):
        return None
    document = _legacy(kinds).get(path)
    return None if document is None else Response(200, {"content-type": "application/json"}, document)


def _wants_aggregated(accept: str) -> bool:
    options = [alternative.replace(" ", "") for alternative in accept.split(",")]
    return any(
        each.startswith("application/json")
        and "as=APIGroupDiscoveryList" in each
        and "v=v2" in each.split(";")
        for each in options
    )


def _groups(kinds: Kinds) -> Mapping[str, Mapping[str, list[Kind]]]:
    """Kinds by group and version, the preferred version first."""
    groups: dict[str, dict[str, list[Kind]]] = {}
    for kind in (*kinds.all, *_CREATED_ONLY):
        groups.setdefault(kind.group, {}).setdefault(kind.version, []).append(kind)
    return {
        group: {name: versions[name] for name in sorted(versions, key=_precedence)}
        for group, versions in groups.items()
    }


def _precedence(version: str) -> tuple[int, int, int, str]:
    """Upstream's order of versions: stable before beta before alpha, newer first, anything else by name."""
    match = re.fullmatch(r"v(\d+)(?:(alpha|beta)(\d+))?", version)
    if match is None:
        return (3, 0, 0, version)
    return ({None: 0, "beta": 1, "alpha": 2}[match[2]], -int(match[1]), -int(match[3] or 0), "")


@lru_cache(maxsize=4)
def _aggregated(kinds: Kinds, *, core: bool) -> bytes:
    groups = _groups(kinds)
    items = [
        _aggregated_group(group, versions) for group, versions in groups.items() if (group == "") == core
    ]
    return encode(
        {
            "kind": "APIGroupDiscoveryList",
            "apiVersion": "apidiscovery.k8s.io/v2",
            "metadata": {},
            "items": items,
        }
    )


def _aggregated_group(group: str, versions: Mapping[str, Iterable[Kind]]) -> Obj:
    shown = [
        {"version": name, "resources": [_aggregated_resource(kind) for kind in kinds], "freshness": "Current"}
        for name, kinds in versions.items()
    ]
    return {"metadata": {"name": group, "creationTimestamp": None}, "versions": shown}


def _verbs(kind: Kind) -> Sequence[str]:
    return ("create",) if kind in _CREATED_ONLY else _VERBS


def _aggregated_resource(kind: Kind) -> Obj:
    resource: Obj = {
        "resource": kind.plural,
        "responseKind": {"group": kind.group, "version": kind.version, "kind": kind.name},
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": _verbs(kind),
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


@lru_cache(maxsize=4)
def _legacy(kinds: Kinds) -> Mapping[str, bytes]:
    groups = _groups(kinds)
    named = [_group(name, versions) for name, versions in groups.items() if name]
    documents: dict[str, Obj] = {
        "/api": {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []},
        "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": named},
    }
    for name, versions in groups.items():
        path = f"/apis/{name}" if name else "/api"
        if name:
            documents[path] = {"kind": "APIGroup", "apiVersion": "v1", **_group(name, versions)}
        for version, members in versions.items():
            documents[f"{path}/{version}"] = {
                "kind": "APIResourceList",
                "apiVersion": "v1",
                "groupVersion": members[0].api_version,
                "resources": [entry for kind in members for entry in _legacy_resources(kind)],
            }
    return {path: encode(document) for path, document in documents.items()}


def _group(name: str, versions: Iterable[str]) -> Obj:
    shown = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": shown, "preferredVersion": shown[0]}


def _legacy_resources(kind: Kind) -> list[Obj]:
    own: Obj = {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.name,
        "verbs": _verbs(kind),
        "shortNames": kind.short_names,
        "categories": kind.categories,
    }
    entries = [{key: value for key, value in own.items() if value != ()}]
    for name in sorted(kind.subresources):
        group, version, spoken, verbs = _spoken(kind, name)
        entry: Obj = {"name": f"{kind.plural}/{name}", "singularName": "", "namespaced": kind.namespaced}
        entries.append(entry | {"group": group, "version": version, "kind": spoken, "verbs": verbs})
    return entries
