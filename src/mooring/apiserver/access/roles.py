"""The rights of the parts that are neither administrators nor nodes: one role each, as rules of RBAC. Data.

`deploy/` grants the same on a cluster (`tests/contracts/test_roles.py` compares them), the embedded server
judges by it (`Tokens.role`), and `tests/real` tries it on the real kube-apiserver. A role has the rights that
its part needs and no others. No role may read Secrets (a driver that needs some gets a Role for those
Secrets), logs, or nodes' pages, or run commands.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec


class Rule(msgspec.Struct, frozen=True):
    """Verbs on resources of an API group; in one `namespace`, and on objects of these `names`, if there are
    any."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    namespace: str = ""
    names: tuple[str, ...] = ()

    def allows(self, verb: str, group: str, resource: str, namespace: str, name: str) -> bool:
        """As upstream's RBAC: a create has no name yet, so a rule for names never allows one."""
        return (
            verb in self.verbs
            and group == self.group
            and resource in self.resources
            and self.namespace in ("", namespace)
            and (not self.names or name in self.names)
        )


_READ = ("get", "list", "watch")
_FOLLOW = ("list", "watch")
_STORAGE, _LEASES, _SNAPSHOTS = "storage.k8s.io", "coordination.k8s.io", "snapshot.storage.k8s.io"
_FENCING = "fencing.mooring.dev"
_EVENTS = Rule("", ("events",), ("get", "create", "patch"))
_SIDECAR_LEASES = Rule(_LEASES, ("leases",), (*_READ, "create", "update", "patch"), "kube-system")

ROLES: Mapping[str, tuple[Rule, ...]] = MappingProxyType({
    "attach-detach": (
        Rule("", ("pods", "persistentvolumeclaims"), _FOLLOW),
        Rule("", ("nodes",), _READ),
        Rule("", ("nodes/status",), ("patch",)),
        Rule("", ("persistentvolumes",), (*_READ, "patch")),
        Rule(_STORAGE, ("csidrivers",), _FOLLOW),
        Rule(_STORAGE, ("volumeattachments",), (*_READ, "create", "patch", "delete")),
        _EVENTS,
        Rule(_LEASES, ("leases",), ("create",), "kube-system"),
        Rule(_LEASES, ("leases",), ("get", "watch", "patch"), "kube-system", ("mooring-attachdetach",)),
    ),
    "fencing": (
        Rule(_FENCING, ("fencepolicies", "fencemechanisms", "nodefences", "storagefences"), _READ),
        Rule(_FENCING, ("fenceremediations",), (*_READ, "patch")),
        Rule(_FENCING, ("fenceremediations/status",), ("patch",)),
        Rule(_FENCING, ("nodefences",), ("create", "patch")),
        Rule(_FENCING, ("storagefences",), ("create", "delete")),
        Rule(_FENCING, ("fencepolicies/status", "fencemechanisms/status", "nodefences/status",
                        "storagefences/status"), ("patch",)),
        Rule("", ("nodes",), (*_READ, "patch")),
        Rule("", ("pods",), ("list", "delete")),
        Rule("", ("pods/status",), ("patch",)),
        Rule("policy", ("poddisruptionbudgets",), ("list",)),
        Rule("", ("persistentvolumes",), ("get", "list")),
        Rule("", ("persistentvolumeclaims",), ("get",)),
        Rule(_STORAGE, ("volumeattachments",), ("list", "patch")),
        _EVENTS,
        Rule(_LEASES, ("leases",), _READ),
        Rule(_LEASES, ("leases",), ("create",), "kube-system"),
        Rule(_LEASES, ("leases",), ("get", "watch", "patch"), "kube-system", ("mooring-fencing",)),
    ),
    "attacher": (
        Rule("", ("persistentvolumes",), (*_READ, "patch")),
        Rule(_STORAGE, ("csinodes",), _READ),
        Rule(_STORAGE, ("volumeattachments",), (*_READ, "patch")),
        Rule(_STORAGE, ("volumeattachments/status",), ("patch",)),
        _SIDECAR_LEASES,
    ),
    "provisioner": (
        Rule("", ("persistentvolumes",), (*_READ, "create", "patch", "delete")),
        Rule("", ("persistentvolumes/status",), ("patch",)),
        Rule("", ("persistentvolumeclaims",), (*_READ, "patch")),
        Rule("", ("pods",), ("list",)),  # is a volume that is to be deleted used?
        Rule(_STORAGE, ("csidrivers",), ("get",)),  # is it attached before it is?
        Rule("", ("nodes",), _READ),
        Rule(_STORAGE, ("storageclasses", "csinodes", "volumeattributesclasses", "volumeattachments"), _READ),
        Rule(_SNAPSHOTS, ("volumesnapshots", "volumesnapshotcontents"), _READ),
        _EVENTS,
        _SIDECAR_LEASES,
    ),
    "resizer": (
        Rule("", ("persistentvolumes",), (*_READ, "patch")),
        Rule("", ("persistentvolumeclaims",), _READ),
        Rule("", ("persistentvolumeclaims/status",), ("patch",)),
        Rule(_STORAGE, ("storageclasses", "volumeattributesclasses"), _READ),
        _EVENTS,
        _SIDECAR_LEASES,
    ),
    "snapshotter": (
        Rule(_SNAPSHOTS, ("volumesnapshotclasses",), _READ),
        Rule(_SNAPSHOTS, ("volumesnapshotcontents",), (*_READ, "patch")),
        Rule(_SNAPSHOTS, ("volumesnapshotcontents/status",), ("patch",)),
        _EVENTS,
        _SIDECAR_LEASES,
    ),
    "csi-driver": (),  # neither its controller nor its node part makes a call to Kubernetes
})  # fmt: skip
"""The rights by role. A node's agent, also one that attaches volumes itself, has those of `node_rights`."""

EBS_CONTROLLER = ("attacher", "provisioner", "resizer")
"""The roles of the sidecars in the pod of the EBS driver's controller, which share one service account."""
