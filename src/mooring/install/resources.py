"""The kinds that components are made of, and where each lives in the API. Data."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from mooring.kube.objects.meta import Resource

_APPS, _RBAC, _ADMISSION = "apps", "rbac.authorization.k8s.io", "admissionregistration.k8s.io"
_FENCING = "fencing.mooring.dev"

RESOURCES: Mapping[str, Resource] = MappingProxyType({
    each.kind: each
    for each in (
        Resource(_APPS, "v1", "deployments", "Deployment"),
        Resource(_APPS, "v1", "daemonsets", "DaemonSet"),
        Resource("", "v1", "configmaps", "ConfigMap"),
        Resource("", "v1", "serviceaccounts", "ServiceAccount"),
        Resource(_RBAC, "v1", "rolebindings", "RoleBinding"),
        Resource(_RBAC, "v1", "roles", "Role"),
        Resource(_RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False),
        Resource(_RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False),
        Resource(_ADMISSION, "v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding",
                 namespaced=False),
        Resource(_ADMISSION, "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", namespaced=False),
        Resource("storage.k8s.io", "v1", "csidrivers", "CSIDriver", namespaced=False),
        Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition",
                 namespaced=False),
        Resource("", "v1", "namespaces", "Namespace", namespaced=False),
    )
})  # fmt: skip
"""By kind, in the order in which a cluster is freed of them: what works first, what it needs last."""
