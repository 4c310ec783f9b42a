"""The rights of users that are neither administrators nor nodes nor roles: those that a RoleBinding or a
ClusterRoleBinding gives them, as upstream's RBAC (plugin/pkg/auth/authorizer/rbac).

One thing is stricter: nothing that a binding gives is a right to write Roles and bindings, because upstream's
check that a user grants no more than it has is not here. A binding whose role is not there gives nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from mooring.apiserver.errors import Obj
from mooring.apiserver.message import User
from mooring.apiserver.store.object_store import Store, decode
from mooring.apiserver.values.dotted import list_at, object_at, objects_at, text_at

RBAC = "rbac.authorization.k8s.io"
_ROLES, _CLUSTER_ROLES = f"roles.{RBAC}", f"clusterroles.{RBAC}"
_BINDINGS, _CLUSTER_BINDINGS = f"rolebindings.{RBAC}", f"clusterrolebindings.{RBAC}"
_READING = frozenset({"get", "list", "watch"})


class Grant(msgspec.Struct, frozen=True):
    """One rule for one subject, in one namespace ("": everywhere)."""

    namespace: str
    verbs: frozenset[str]
    groups: frozenset[str]
    resources: frozenset[str]
    names: frozenset[str]

    def allows(self, verb: str, group: str, resource: str, namespace: str, name: str) -> bool:
        """As upstream's RuleAllows: `*/scale` is that subresource of any resource, and a rule for names never
        allows a create."""
        return (
            self.namespace in ("", namespace)
            and _has(self.verbs, verb)
            and _has(self.groups, group)
            and (_has(self.resources, resource) or _any_resources(resource) in self.resources)
            and (not self.names or name in self.names)
        )


class Bindings:
    """The grants in one store, as of its last commit; read anew when a role or a binding has changed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._seen: tuple[int, ...] = ()
        self._grants: Mapping[str, list[Grant]] = {}

    def allows(self, user: User, verb: str, group: str, resource: str, namespace: str, name: str) -> bool:
        """Whether a binding gives the user the right."""
        if group == RBAC and verb not in _READING:
            return False
        grants = self._by_subject()
        subjects = (f"User/{user.name}", *(f"Group/{each}" for each in user.groups))
        return any(
            grant.allows(verb, group, resource, namespace, name)
            for subject in subjects
            for grant in grants.get(subject, ())
        )

    def _by_subject(self) -> Mapping[str, list[Grant]]:
        kinds = (_ROLES, _CLUSTER_ROLES, _BINDINGS, _CLUSTER_BINDINGS)
        seen = tuple(self._store.collection(each).history.end for each in kinds)
        if seen != self._seen:
            found: dict[str, list[Grant]] = {}
            for subject, grant in self._read():
                found.setdefault(subject, []).append(grant)
            self._grants, self._seen = found, seen
        return self._grants

    def _read(self) -> Iterator[tuple[str, Grant]]:
        for kind in (_BINDINGS, _CLUSTER_BINDINGS):
            for item in self._store.collection(kind).items.values():
                binding, namespace = decode(item.body), item.key[0]
                for grant in self._granted(object_at(binding, "roleRef"), namespace):
                    for subject in objects_at(binding, "subjects"):
                        yield _subject(subject, namespace), grant

    def _granted(self, reference: Obj, namespace: str) -> Iterator[Grant]:
        cluster_wide = text_at(reference, "kind") == "ClusterRole"
        key = ("" if cluster_wide else namespace, text_at(reference, "name"))
        role = self._store.get(_CLUSTER_ROLES if cluster_wide else _ROLES, key)
        for rule in objects_at(decode(role.body), "rules") if role is not None else ():
            fields = ("verbs", "apiGroups", "resources", "resourceNames")
            yield Grant(namespace, *(frozenset(list_at(rule, each)) for each in fields))


def _subject(subject: Obj, namespace: str) -> str:
    name = text_at(subject, "name")
    if text_at(subject, "kind") == "ServiceAccount":
        return f"User/system:serviceaccount:{text_at(subject, 'namespace') or namespace}:{name}"
    return f"{text_at(subject, 'kind')}/{name}"


def _has(named: frozenset[str], one: str) -> bool:
    return "*" in named or one in named


def _any_resources(resource: str) -> str:
    """`*/scale` for `deployments/scale`; nothing for a resource itself."""
    _, slash, sub = resource.partition("/")
    return f"*/{sub}" if slash else ""
