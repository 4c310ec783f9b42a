"""Whether a user may make a request, as far as its path, its method and its selectors show;
`node_restriction` judges the object itself.

An administrator may do anything; a node has the rights of `node_rights` on the objects that belong to it
(`node_graph`); another part has the rights of its role (`roles`); every other user those that it is bound to
(`bindings`). The texts of refusals are upstream's, because people search for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from mooring.apiserver.access.bindings import Bindings
from mooring.apiserver.access.node_graph import Relations
from mooring.apiserver.access.node_rights import NODE, Right, Scope, by_resource
from mooring.apiserver.access.roles import ROLES
from mooring.apiserver.errors import Forbidden, Resource, forbidden
from mooring.apiserver.message import Request, User
from mooring.apiserver.routes import Route
from mooring.apiserver.store.object_store import Store
from mooring.kube.selectors import FieldSelector, InvalidSelector, parse_field_selector

_SELECTING = frozenset({"list", "watch", "deletecollection"})
_RIGHTS: Mapping[tuple[str, str], Mapping[str, Right]] = MappingProxyType(by_resource(NODE))


class Attributes(msgspec.Struct, frozen=True):
    """The attributes of a request that count for authorization (upstream: authorizer.Attributes). A list or
    watch whose field selector selects one name counts as a request for that name."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""
    fields: FieldSelector = FieldSelector()

    def refused(self, user: User, why: str = "") -> Forbidden:
        """The refusal in upstream's words."""
        place = f'in the namespace "{self.namespace}"' if self.namespace else "at the cluster scope"
        resource = f'resource "{self.resource}" in API group "{self.group}"'
        message = f'User "{user.name}" cannot {self.verb} {resource} {place}'
        plural = self.resource.partition("/")[0]
        return forbidden(Resource(self.group, plural), self.name, f"{message}: {why}" if why else message)


def attributes_of(route: Route, request: Request) -> Attributes:
    """The attributes of a request. A malformed field selector counts as empty, which gives no right."""
    fields = FieldSelector()
    if route.verb in _SELECTING:
        try:
            fields = parse_field_selector(request.parameter("fieldSelector"))
        except InvalidSelector:
            fields = FieldSelector()
    resource = f"{route.kind.plural}/{route.subresource}" if route.subresource else route.kind.plural
    name = route.name or fields.exact("metadata.name") or ""
    return Attributes(route.verb, route.kind.group, resource, route.namespace, name, fields)


class Authorizer:
    """Judges the requests to one store."""

    def __init__(self, store: Store) -> None:
        self._relations = Relations(store)
        self._bindings = Bindings(store)

    def authorize(self, user: User, attributes: Attributes) -> None:
        """Raises Forbidden unless the user has the right, as far as that shows before the object is read."""
        if user.is_admin:
            return
        if (node := user.node_name) is not None:
            why = self._refusal_of_node(node, attributes)
        else:
            why = None if self._is_granted(user, attributes) else ""
        if why is not None:
            raise attributes.refused(user, why)

    def _is_granted(self, user: User, wanted: Attributes) -> bool:
        asked = (wanted.verb, wanted.group, wanted.resource, wanted.namespace, wanted.name)
        if user.role is not None:
            return any(rule.allows(*asked) for rule in ROLES.get(user.role, ()))
        return self._bindings.allows(user, *asked)

    def _refusal_of_node(self, node: str, attributes: Attributes) -> str | None:
        """Why a node may not make the request; None if it may."""
        right = _RIGHTS.get((attributes.group, attributes.resource), {}).get(attributes.verb)
        if right is None:
            return ""
        if right.namespace and attributes.namespace != right.namespace:
            return f'can only access {right.resources[0]} in the "{right.namespace}" system namespace'
        match right.scope:
            case Scope.ALL | Scope.JUDGED:
                return None
            case Scope.OWN_NAME:
                return _refusal_of_name(node, attributes)
            case Scope.OWN_PODS if (
                attributes.verb in _SELECTING and attributes.fields.exact("spec.nodeName") == node
            ):
                return None
            case Scope.OWN_SLICES:
                own = attributes.fields.exact("spec.nodeName") == node
                return (
                    None
                    if own
                    else "can only list/watch/deletecollection resourceslices with nodeName field selector"
                )
            case Scope.OWN_PODS if not attributes.name:
                return "can only list/watch pods with spec.nodeName field selector"
            case _:
                return self._refusal_of_relation(node, attributes)

    def _refusal_of_relation(self, node: str, attributes: Attributes) -> str | None:
        if not attributes.name:
            return "No Object name found"
        plural = attributes.resource.partition("/")[0]
        if self._relations.has(node, plural, attributes.namespace, attributes.name):
            return None
        return f"no relationship found between node '{node}' and this object"


def _refusal_of_name(node: str, attributes: Attributes) -> str | None:
    if attributes.verb == "create" or attributes.name == node:
        return None  # `node_restriction` judges the name in a create's body
    if not attributes.name:
        return f"node '{node}' cannot read all {attributes.resource}, only its own"
    return f"node '{node}' cannot {attributes.verb} '{attributes.name}', only the object of its own name"
