"""The rights of a node: verbs, resources, and on which objects of these. Data.

The source is upstream's Node authorizer and the policy rules of `system:node`
(plugin/pkg/auth/authorizer/node/node_authorizer.go and rbac/bootstrappolicy/policy.go, Kubernetes 1.36, with
AuthorizeNodeWithSelectors). A node has fewer rights here, because this node agent lacks some parts of a
kubelet (`WITHHELD`).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType

import msgspec


class Scope(Enum):
    """The objects on which a right holds."""

    ALL = "all objects"
    OWN_NAME = "the object of its own name"
    """A list or watch must select the name by its field selector; `node_restriction` judges the name in a
    create."""
    RELATED = "objects of its pods"
    """By name, and in a namespace if the kind has namespaces: see `node_graph`."""
    OWN_PODS = "its pods"
    """By the field selector `spec.nodeName`, or by the name of one of them."""
    JUDGED = "its own, judged by the object"
    """See `node_restriction`: a pod or a slice that is created is known only then."""
    OWN_SLICES = "its slices"
    """Many at once, by the field selector `spec.nodeName`."""


class Right(msgspec.Struct, frozen=True):
    """Verbs on resources (`pods`, or `pods/status`) of one API group; `namespace` "" is any, or none."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    scope: Scope
    namespace: str = ""


_READ = ("get", "list", "watch")
_WRITE = ("create", "update", "patch")
_STORAGE, _LEASES = "storage.k8s.io", "coordination.k8s.io"

NODE: tuple[Right, ...] = (
    Right("", ("nodes",), _READ, Scope.OWN_NAME),
    Right("", ("nodes",), _WRITE, Scope.OWN_NAME),
    Right("", ("nodes/status",), ("update", "patch"), Scope.OWN_NAME),
    Right("", ("pods",), _READ, Scope.OWN_PODS),
    Right("", ("pods",), ("create", "delete"), Scope.JUDGED),
    Right("", ("pods/status",), ("update", "patch"), Scope.JUDGED),
    Right("", ("pods/eviction",), ("create",), Scope.JUDGED),
    Right("", ("secrets", "configmaps"), _READ, Scope.RELATED),
    Right("", ("serviceaccounts",), ("get",), Scope.RELATED),
    Right("", ("serviceaccounts/token",), ("create",), Scope.RELATED),
    Right("", ("persistentvolumeclaims", "persistentvolumes"), ("get",), Scope.RELATED),
    Right("", ("persistentvolumeclaims/status",), ("update", "patch"), Scope.RELATED),
    Right(_STORAGE, ("volumeattachments",), ("get",), Scope.RELATED),
    Right(_STORAGE, ("csinodes",), ("get", *_WRITE, "delete"), Scope.OWN_NAME),
    Right(_LEASES, ("leases",), ("get", *_WRITE, "delete"), Scope.OWN_NAME, "kube-node-lease"),
    Right(_STORAGE, ("csidrivers",), _READ, Scope.ALL),
    Right("node.k8s.io", ("runtimeclasses",), _READ, Scope.ALL),
    Right("", ("services",), _READ, Scope.ALL),
    Right("", ("endpoints",), ("get",), Scope.ALL),
    Right("resource.k8s.io", ("resourceslices",), ("get", "update", "patch", "delete"), Scope.RELATED),
    Right("resource.k8s.io", ("resourceslices",), ("create",), Scope.JUDGED),
    Right("resource.k8s.io", ("resourceslices",), ("list", "watch", "deletecollection"), Scope.OWN_SLICES),
    Right("", ("events",), _WRITE, Scope.ALL),
    Right("events.k8s.io", ("events",), _WRITE, Scope.ALL),
)

WITHHELD: Mapping[tuple[str, str], str] = MappingProxyType({
    ("authentication.k8s.io", "tokenreviews"): "upstream: create; nothing on a node asks here whose token it was shown",
    ("authorization.k8s.io", "subjectaccessreviews"): "upstream: create; a node asks about itself only",
    ("authorization.k8s.io", "localsubjectaccessreviews"): "upstream: create; a node asks about itself only",
    ("certificates.k8s.io", "certificatesigningrequests"): "upstream: create and read; nothing is signed here",
    ("resource.k8s.io", "resourceclaims"): "upstream: get, of its pods; the node agent prepares no devices",
})  # fmt: skip
"""Resources on which upstream gives a node rights and this server gives none, and why."""


def by_resource(rights: tuple[Right, ...]) -> Mapping[tuple[str, str], Mapping[str, Right]]:
    """The rights by group and resource, then by verb."""
    rights_of: dict[tuple[str, str], dict[str, Right]] = {}
    for right in rights:
        for resource in right.resources:
            rights_of.setdefault((right.group, resource), {}).update(dict.fromkeys(right.verbs, right))
    return rights_of
