"""Whether a node may make this change, judged by the object before it is stored. Pure but for looking up the
Node.

The rules are upstream's admission plugin NodeRestriction (plugin/pkg/admission/noderestriction/admission.go,
Kubernetes 1.36), with its texts. One rule is stricter: a node cannot create its Node with the out-of-service
taint, because only an operator may state that its machine is off (docs/safety.md).

An update is judged twice: as it was sent, because upstream also refuses changes that /status would ignore;
and as it will be stored, so that no form of a patch can hide a change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mooring.apiserver.access.object_references import MIRROR, api_objects
from mooring.apiserver.errors import Obj, Resource, forbidden, not_found
from mooring.apiserver.message import User
from mooring.apiserver.objects.kinds import Kind
from mooring.apiserver.routes import Route
from mooring.apiserver.values.dotted import list_at, object_at, objects_at, strings_at, text_at, value_at

FindNode = Callable[[str], Obj | None]
"""Looks up the newest state of a Node."""

OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"

KUBELET_LABELS = frozenset({
    "kubernetes.io/hostname", "kubernetes.io/os", "kubernetes.io/arch", "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch", "topology.kubernetes.io/zone", "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region",
    "node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type",
})  # fmt: skip
"""Labels of Kubernetes that a node may set on its Node (k8s.io/kubelet/pkg/apis/well_known_labels.go)."""
KUBELET_NAMESPACES = ("kubelet.kubernetes.io", "node.kubernetes.io")
RESTRICTED_NAMESPACE = "node-restriction.kubernetes.io"
_KUBERNETES = ("kubernetes.io", "k8s.io")

_CLAIM_STATUS = ("capacity", "conditions", "allocatedResources", "allocatedResourceStatuses")
"""The fields of a claim's status that a node may change."""


def admit_create(user: User, kind: Kind, obj: Obj, find_node: FindNode) -> None:
    """Raises Forbidden if the user is a node that may not create this object, NotFound if its own Node is
    missing."""
    node = user.node_name
    if node is None or user.is_admin:
        return
    name = text_at(obj, "metadata.name")
    match kind.storage:
        case "nodes":
            _refuse(kind, name, _refusal_of_new_node(node, name, obj))
        case "pods":
            _refuse(kind, name, _refusal_of_mirror(node, obj))
            _check_owner_uid(kind, name, node, obj, find_node)
        case "csinodes.storage.k8s.io":
            refusal = "can only access CSINode with the same name as the requesting node"
            _refuse(kind, name, "" if name == node else refusal)
        case "resourceslices.resource.k8s.io":
            refusal = "can only create ResourceSlice with the same NodeName as the requesting node"
            _refuse(kind, name, "" if text_at(obj, "spec.nodeName") == node else refusal)
        case "leases.coordination.k8s.io":
            refusal = "can only access node lease with the same name as the requesting node"
            _refuse(kind, name, "" if name == node else refusal)
        case _:
            return


def admit_update(user: User, route: Route, new: Obj, old: Obj) -> None:
    """Raises Forbidden if the user is a node that may not make `new` of `old`."""
    node = user.node_name
    if node is None or user.is_admin:
        return
    match route.kind.storage:
        case "nodes":
            _refuse(route.kind, route.name, _refusal_of_node(node, route.name, new, old))
        case "pods":
            _refuse(route.kind, route.name, _refusal_of_pod_status(node, new, old))
        case "persistentvolumeclaims":
            _refuse(route.kind, route.name, _refusal_of_claim_status(node, new, old))
        case _:
            return


def admit_access(user: User, route: Route, fields: Mapping[str, str]) -> None:
    """Raises Forbidden if the user is a node that may not write to the object with these fields, whatever it
    writes.

    It is called before the request is compared with the object, because the kind of refusal would reveal the
    object's content.
    """
    node = user.node_name
    if node is None or user.is_admin or route.kind.storage != "pods" or fields.get("spec.nodeName") == node:
        return
    what = _ON_PODS.get((route.verb, route.subresource), f"{route.verb} pods")
    _refuse(route.kind, route.name, f'node "{node}" can only {what} with spec.nodeName set to itself')


_ON_PODS = {
    ("create", "eviction"): "evict pods",
    ("update", "status"): "update pod status for pods",
    ("patch", "status"): "update pod status for pods",
}


def forbidden_labels(new: Mapping[str, str], old: Mapping[str, str]) -> list[str]:
    """The labels that differ and that a node may not set, change or remove."""
    changed = {key for key in {*new, *old} if new.get(key) != old.get(key)}
    return sorted(filter(_is_restricted, changed))


def _is_restricted(key: str) -> bool:
    namespace = key.partition("/")[0] if "/" in key else ""
    if _is_in(namespace, (RESTRICTED_NAMESPACE,)):
        return True
    return (
        _is_in(namespace, _KUBERNETES)
        and key not in KUBELET_LABELS
        and not _is_in(namespace, KUBELET_NAMESPACES)
    )


def _is_in(namespace: str, parents: tuple[str, ...]) -> bool:
    return any(namespace == each or namespace.endswith(f".{each}") for each in parents)


def _refusal_of_new_node(node: str, name: str, new: Obj) -> str:
    if name != node:
        return f'node "{node}" is not allowed to modify node "{name}"'
    if value_at(new, "spec.configSource") is not None:
        return f'node "{node}" is not allowed to create pods with a non-nil configSource'
    if labels := forbidden_labels(strings_at(new, "metadata.labels"), {}):
        return f'node "{node}" is not allowed to set the following labels: {", ".join(labels)}'
    if any(each.get("key") == OUT_OF_SERVICE for each in objects_at(new, "spec.taints")):
        return f'node "{node}" is not allowed to state that it is out of service (taint {OUT_OF_SERVICE})'
    return ""


def _refusal_of_node(node: str, name: str, new: Obj, old: Obj) -> str:
    if name != node:
        return f'node "{node}" is not allowed to modify node "{name}"'
    source = value_at(new, "spec.configSource")
    if source is not None and source != value_at(old, "spec.configSource"):
        return f'node "{node}" is not allowed to update configSource to a new non-nil configSource'
    if list_at(new, "spec.taints") != list_at(old, "spec.taints"):
        return f'node "{node}" is not allowed to modify taints'
    if list_at(new, "metadata.ownerReferences") != list_at(old, "metadata.ownerReferences"):
        return f'node "{node}" is not allowed to modify ownerReferences'
    if labels := forbidden_labels(strings_at(new, "metadata.labels"), strings_at(old, "metadata.labels")):
        return f"is not allowed to modify labels: {', '.join(labels)}"
    return ""


def _refusal_of_mirror(node: str, pod: Obj) -> str:
    if MIRROR not in strings_at(pod, "metadata.annotations"):
        return f'pod does not have "{MIRROR}" annotation, node "{node}" can only create mirror pods'
    if text_at(pod, "spec.nodeName") != node:
        return f'node "{node}" can only create pods with spec.nodeName set to itself'
    owners = objects_at(pod, "metadata.ownerReferences")
    if len(owners) != 1:
        which = "a single owner reference" if owners else "an owner reference"
        return f'node "{node}" can only create pods with {which} set to itself'
    owner = owners[0]
    if (owner.get("apiVersion"), owner.get("kind"), owner.get("name")) != ("v1", "Node", node):
        return f'node "{node}" can only create pods with an owner reference set to itself'
    if owner.get("controller") is not True:
        return f'node "{node}" can only create pods with a controller owner reference set to itself'
    if owner.get("blockOwnerDeletion"):
        return f'node "{node}" must not set blockOwnerDeletion on an owner reference'
    references = api_objects(object_at(pod, "spec"))
    return f'node "{node}" can not create pods that reference {references}' if references else ""


def _check_owner_uid(kind: Kind, name: str, node: str, pod: Obj, find_node: FindNode) -> None:
    stored = find_node(node)
    if stored is None:
        raise not_found(Resource("", "nodes"), node)
    expected, got = objects_at(pod, "metadata.ownerReferences")[0].get("uid"), stored["metadata"]["uid"]
    _refuse(kind, name, "" if expected == got else f"node {node} UID mismatch: expected {expected} got {got}")


def _refusal_of_pod_status(node: str, new: Obj, old: Obj) -> str:
    if strings_at(new, "metadata.labels") != strings_at(old, "metadata.labels"):
        return f'node "{node}" cannot update labels through pod status'
    if list_at(new, "status.resourceClaimStatuses") != list_at(old, "status.resourceClaimStatuses"):
        return f'node "{node}" cannot update resource claim statues'
    field = "status.extendedResourceClaimStatus"
    if object_at(new, field) != object_at(old, field):
        return f'node "{node}" cannot update extended resource claim status'
    return ""


def _refusal_of_claim_status(node: str, new: Obj, old: Obj) -> str:
    changed = sorted(_differing(_fixed_of_claim(new), _fixed_of_claim(old)))
    if not changed:
        return ""
    refusal = (
        f'node "{node}" is not allowed to update fields other than status.quantity and status.conditions'
    )
    return f"{refusal}: {', '.join(changed)}"


def _fixed_of_claim(claim: Obj) -> dict[str, Any]:
    """The fields of a claim that a node may not change, by path; an empty one counts as missing."""
    meta = {f"metadata.{key}": value for key, value in object_at(claim, "metadata").items()}
    status = {
        f"status.{key}": value
        for key, value in object_at(claim, "status").items()
        if key not in _CLAIM_STATUS
    }
    fixed = {"spec": claim.get("spec"), **meta, **status}
    left_out = ("metadata.resourceVersion", "metadata.managedFields")
    return {
        path: value
        for path, value in fixed.items()
        if value not in (None, "", [], {}) and path not in left_out
    }


def _differing(new: Mapping[str, Any], old: Mapping[str, Any]) -> set[str]:
    return {path for path in {*new, *old} if new.get(path) != old.get(path)}


def _refuse(kind: Kind, name: str, why: str) -> None:
    if why:
        raise forbidden(kind.resource, name, why)
