"""The small kinds of the core group: Namespaces, ConfigMaps, Secrets, Services, ServiceAccounts."""

from __future__ import annotations

from typing import Any

from mooring.kube.objects.meta import Object, Resource, Struct


class NamespaceStatus(Struct, frozen=True):
    phase: str = ""


class Namespace(Object, frozen=True):
    RESOURCE = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
    status: NamespaceStatus = NamespaceStatus()


class ConfigMap(Object, frozen=True):
    RESOURCE = Resource("", "v1", "configmaps", "ConfigMap")
    data: dict[str, str] = {}
    binary_data: dict[str, str] = {}


class Secret(Object, frozen=True):
    RESOURCE = Resource("", "v1", "secrets", "Secret")
    type: str = "Opaque"
    data: dict[str, str] = {}


class Service(Object, frozen=True):
    RESOURCE = Resource("", "v1", "services", "Service")
    spec: dict[str, Any] = {}


class ServiceAccount(Object, frozen=True):
    RESOURCE = Resource("", "v1", "serviceaccounts", "ServiceAccount")
