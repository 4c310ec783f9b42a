"""May a request be made? Judged by what its path, its method and its selectors tell; the object itself is
judged by `node_restriction`.

An administrator may do anything; a node what `node_rights` says, of the objects that belong to it
(`node_graph`); another part what its role says (`roles`); every other user nothing. The words of a refusal
are upstream's, because people search for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from mooring.apiserver.access.node_graph import Relations
from mooring.apiserver.access.node_rights import NODE, Right, Scope, by_resource
from mooring.apiserver.access.roles import ROLES
from mooring.apiserver.errors import Forbidden, Resource, forbidden
from mooring.apiserver.message import Request, User
from mooring.apiserver.routes import Route
from mooring.apiserver.store.object_store import Store
from mooring.kube.selectors import FieldSelector, InvalidSelector, parse_field_selector

_SELECTING = frozenset({"list", "watch"})
_RIGHTS: Mapping[tuple[str, str], Mapping[str, Right]] = MappingProxyType(by_resource(NODE))


class Asked(msgspec.Struct, frozen=True):
    """What a request wants to do. A list or watch that selects one name by its field selector asks for that
    name."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""
    fields: FieldSelector = FieldSelector()

    def refused(self, user: User, why: str = "") -> Forbidden:
        """The refusal in upstream's words."""
        place = f'in the namespace "{self.namespace}"' if self.namespace else "at the cluster scope"
        told = f'User "{user.name}" cannot {self.verb} resource "{self.resource}" in API group "{self.group}" {place}'
        plural = self.resource.partition("/")[0]
        return forbidden(Resource(self.group, plural), self.name, f"{told}: {why}" if why else told)


def asked(route: Route, request: Request) -> Asked:
    """What a request asks for. A field selector that cannot be read selects nothing that would give a
    right."""
    fields = FieldSelector()
    if route.verb in _SELECTING:
        try:
            fields = parse_field_selector(request.parameter("fieldSelector"))
        except InvalidSelector:
            fields = FieldSelector()
    resource = f"{route.kind.plural}/{route.subresource}" if route.subresource else route.kind.plural
    name = route.name or fields.exact("metadata.name") or ""
    return Asked(route.verb, route.kind.group, resource, route.namespace, name, fields)


class Authorizer:
    """Judges the requests to one store."""

    def __init__(self, store: Store) -> None:
        self._relations = Relations(store)

    def authorize(self, user: User, wanted: Asked) -> None:
        """Raises Forbidden unless the user may do what is asked, as far as can be told before the object is
        known."""
        if user.is_admin:
            return
        if (node := user.node_name) is not None:
            why = self._refusal_of_node(node, wanted)
        else:
            why = None if _role_allows(user.role, wanted) else ""
        if why is not None:
            raise wanted.refused(user, why)

    def _refusal_of_node(self, node: str, wanted: Asked) -> str | None:
        """Why a node may not, or None if it may."""
        right = _RIGHTS.get((wanted.group, wanted.resource), {}).get(wanted.verb)
        if right is None:
            return ""
        if right.namespace and wanted.namespace != right.namespace:
            return f'can only access {right.resources[0]} in the "{right.namespace}" system namespace'
        match right.scope:
            case Scope.ALL | Scope.JUDGED:
                return None
            case Scope.OWN_NAME:
                return _refusal_of_name(node, wanted)
            case Scope.OWN_PODS if wanted.verb in _SELECTING and wanted.fields.exact("spec.nodeName") == node:
                return None
            case Scope.OWN_PODS if not wanted.name:
                return "can only list/watch pods with spec.nodeName field selector"
            case _:
                return self._refusal_of_relation(node, wanted)

    def _refusal_of_relation(self, node: str, wanted: Asked) -> str | None:
        if not wanted.name:
            return "No Object name found"
        plural = wanted.resource.partition("/")[0]
        if self._relations.has(node, plural, wanted.namespace, wanted.name):
            return None
        return f"no relationship found between node '{node}' and this object"


def _role_allows(role: str | None, wanted: Asked) -> bool:
    rules = ROLES.get(role or "", ())
    return any(
        rule.allows(wanted.verb, wanted.group, wanted.resource, wanted.namespace, wanted.name)
        for rule in rules
    )


def _refusal_of_name(node: str, wanted: Asked) -> str | None:
    if wanted.verb == "create" or wanted.name == node:
        return None  # the name in what is created is judged by `node_restriction`
    if not wanted.name:
        return f"node '{node}' cannot read all {wanted.resource}, only its own"
    return f"node '{node}' cannot {wanted.verb} '{wanted.name}', only the object of its own name"
