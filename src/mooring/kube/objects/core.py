"""The small kinds of the core group: Namespace, ConfigMap, Secret, Service, Endpoints, ServiceAccount."""

from __future__ import annotations

from typing import Any

from mooring.kube.objects.meta import Condition, Object, Resource, Struct


class NamespaceStatus(Struct, frozen=True):
    phase: str = ""
    conditions: tuple[Condition, ...] = ()


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


class EndpointAddress(Struct, frozen=True):
    ip: str = ""


class EndpointSubset(Struct, frozen=True):
    addresses: tuple[EndpointAddress, ...] = ()


class Endpoints(Object, frozen=True):
    RESOURCE = Resource("", "v1", "endpoints", "Endpoints")
    subsets: tuple[EndpointSubset, ...] = ()


class ServiceAccount(Object, frozen=True):
    RESOURCE = Resource("", "v1", "serviceaccounts", "ServiceAccount")
