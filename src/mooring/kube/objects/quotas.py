"""ResourceQuotas: limits of a namespace."""

from __future__ import annotations

from typing import Any

from mooring.kube.objects.meta import Object, Resource, Struct


class ResourceQuotaSpec(Struct, frozen=True):
    """`hard`: resource -> quantity."""

    hard: dict[str, str] = {}
    scopes: tuple[str, ...] = ()
    scope_selector: dict[str, Any] | None = None


class ResourceQuotaStatus(Struct, frozen=True):
    """The limits that are counted, and what is taken of each: resource -> quantity."""

    hard: dict[str, str] = {}
    used: dict[str, str] = {}


class ResourceQuota(Object, frozen=True):
    RESOURCE = Resource("", "v1", "resourcequotas", "ResourceQuota")
    spec: ResourceQuotaSpec = ResourceQuotaSpec()
    status: ResourceQuotaStatus = ResourceQuotaStatus()
