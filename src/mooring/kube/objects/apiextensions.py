"""The group apiextensions.k8s.io: kinds that a cluster is taught."""

from __future__ import annotations

from mooring.kube.objects.meta import Object, Resource


class CustomResourceDefinition(Object, frozen=True):
    """Only its name is used here."""

    RESOURCE = Resource(
        "apiextensions.k8s.io",
        "v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        namespaced=False,
    )
