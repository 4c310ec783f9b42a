"""The meaning of a path: kind, namespace, name, subresource and verb. Pure."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from mooring.apiserver.errors import MethodNotAllowed, NoSuchPath, UnknownPath
from mooring.apiserver.message import Request
from mooring.apiserver.objects.kinds import Kind, Kinds

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}
_POSTED = ("binding", "eviction", "token")
_NOT_ALLOWED = "the server does not allow this method on the requested resource"


class Route(msgspec.Struct, frozen=True):
    """The resource that a request is about. `namespace` is empty for cluster-scoped kinds and for all
    namespaces."""

    kind: Kind
    verb: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def resolve(request: Request, kinds: Kinds) -> Route:
    """The resource that a request is about, one of `kinds`.

    Raises NotFound for a path that names none, MethodNotAllowed for a method that the path does not have.
    """
    return _resolved(request.method, request.path, request.flag("watch"), kinds)


@lru_cache(maxsize=1024)
def _resolved(method: str, path: str, watch: bool, kinds: Kinds) -> Route:
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) >= 3:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) >= 4:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        raise NoSuchPath
    if group and (group, version) not in kinds.versions:
        raise NoSuchPath
    if (parts[0], rest[0], rest[2:]) == ("api", "namespaces", ["bindings"]):
        return _binding(method, kinds.by_path["", "v1", "pods"], rest[1])
    watched = rest[0] == "watch" and len(rest) > 1 and method == "GET"
    namespace, rest = "", rest[1:] if watched else rest
    if rest[0] == "namespaces" and len(rest) >= 3 and (group, version, rest[2]) in kinds.by_path:
        namespace, rest = rest[1], rest[2:]
    kind = kinds.by_path.get((group, version, rest[0]))
    if kind is None or len(rest) > 3 or not all(rest) or (namespace and not kind.namespaced):
        raise UnknownPath
    route = _route(method, watch, kind, namespace, [*rest[1:], "", ""])
    return msgspec.structs.replace(route, verb="watch") if watched and not route.name else route


def _binding(method: str, pods: Kind, namespace: str) -> Route:
    """The binding of a pod that is named in the body."""
    if method != "POST":
        raise MethodNotAllowed(_NOT_ALLOWED)
    return Route(pods, "create", namespace, subresource="binding")


def _route(method: str, watch: bool, kind: Kind, namespace: str, rest: list[str]) -> Route:
    name, subresource = rest[0], rest[1]
    if subresource and subresource not in kind.subresources:
        raise UnknownPath
    if kind.namespaced and name and not namespace:
        raise UnknownPath
    return Route(kind, _verb(method, watch, kind, namespace, name, subresource), namespace, name, subresource)


def _verb(method: str, watch: bool, kind: Kind, namespace: str, name: str, subresource: str) -> str:
    if method in _method_errors(kind, namespace, name, subresource):
        raise MethodNotAllowed(_NOT_ALLOWED)
    if method == "GET":
        return "get" if name else "watch" if watch else "list"
    if method == "DELETE" and not subresource:
        return "delete" if name else "deletecollection"
    if method in _VERBS and (method == "POST") == (not name or subresource in _POSTED):
        return _VERBS[method]
    raise MethodNotAllowed(_NOT_ALLOWED)


def _method_errors(kind: Kind, namespace: str, name: str, subresource: str) -> tuple[str, ...]:
    """The methods that the path would have, were it not for its kind or its missing namespace."""
    if subresource in _POSTED:
        return ("GET", "PUT", "PATCH", "DELETE")
    if kind.namespaced and not namespace:
        return ("POST", "DELETE")
    return ("DELETE",) if kind.storage == "namespaces" and not name else ()
