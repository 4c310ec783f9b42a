"""A container's environment variables. Pure.

Rules: Kubernetes' API reference of `Container` (`envFrom` first, then `env`, later ones win; `$(VAR)` in a
value is replaced where VAR was declared before, `$$` is one dollar, anything else stays as it is). What the
image and the node give (PATH, HOSTNAME) is weaker than what is declared. A variable that cannot be had is a
`ContainerConfigProblem`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import ROUND_CEILING
from typing import Any

from mooring.kube.objects import Container, EnvVar, Pod
from mooring.kube.quantity import InvalidQuantity, parse_quantity

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
HOSTNAME_LENGTH = 63  # of a DNS label; the kernel takes no more than 64

_REFERENCE = re.compile(r"\$(?:\$|\(([-._A-Za-z0-9]+)\))")
_NAME = re.compile(r"[ -<>-~]+")
_MAP_KEY = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")

Lookup = Callable[[str, str], Mapping[str, str] | None]
"""The data of the ConfigMap or Secret (kind, name) in the pod's namespace, decoded; None if it does not
exist."""


class ContainerConfigProblem(Exception):
    """The container cannot be made as its spec says; `reason` is a waiting reason of Kubernetes."""

    def __init__(self, reason: str, message: str) -> None:
        self.reason = reason
        super().__init__(message)


def config_problem(message: str) -> ContainerConfigProblem:
    """A problem of the pod's spec, or of what it refers to."""
    return ContainerConfigProblem("CreateContainerConfigError", message)


@dataclass(frozen=True)
class Surroundings:
    """What a pod's containers may refer to. `allocatable` is the node's, by resource."""

    node_address: str
    pod_address: str
    lookup: Lookup
    allocatable: Mapping[str, str] = field(default_factory=dict[str, str])


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replaces `$(VAR)` by the variable's value, if there is one."""

    def replacement(match: re.Match[str]) -> str:
        if match[1] is None:
            return "$"
        return variables.get(match[1], match[0])

    return _REFERENCE.sub(replacement, text)


def unresolved(text: str, variables: Mapping[str, str]) -> list[str]:
    """The variables that `text` refers to and that do not exist."""
    return [match[1] for match in _REFERENCE.finditer(text) if match[1] and match[1] not in variables]


def hostname(pod: Pod) -> str:
    """`spec.hostname`, else the pod's name, cut to what a host name may have; the node's with the host's
    network."""
    if pod.spec.host_network:
        return pod.spec.node_name[:HOSTNAME_LENGTH]
    return (pod.spec.hostname or pod.name)[:HOSTNAME_LENGTH].rstrip("-.")


def declared(pod: Pod, container: Container, around: Surroundings) -> dict[str, str]:
    """The variables of `envFrom` and `env`. Raises `ContainerConfigProblem`."""
    variables = _from_sources(container, around.lookup)
    for variable in container.env:
        value = _value(pod, container, variable, around)
        if value is not None:
            variables[variable.name] = expand(value, variables) if variable.value_from is None else value
    return variables


def references(container: Container) -> set[tuple[str, str]]:
    """The ConfigMaps and Secrets (kind, name) that the variables refer to."""
    found: set[tuple[str, str]] = set()
    for source in container.env_from:
        found |= {
            (kind, reference["name"]) for kind, reference in _kinds(source.config_map_ref, source.secret_ref)
        }
    for variable in container.env:
        of = variable.value_from or {}
        found |= {
            (kind, ref["name"]) for kind, ref in _kinds(of.get("configMapKeyRef"), of.get("secretKeyRef"))
        }
    return found


def _kinds(
    config_map: dict[str, Any] | None, secret: dict[str, Any] | None
) -> list[tuple[str, dict[str, Any]]]:
    pairs = (("ConfigMap", config_map), ("Secret", secret))
    return [(kind, {"name": "", **reference}) for kind, reference in pairs if reference is not None]


def _from_sources(container: Container, lookup: Lookup) -> dict[str, str]:
    variables: dict[str, str] = {}
    for source in container.env_from:
        for kind, reference in _kinds(source.config_map_ref, source.secret_ref):
            data = lookup(kind, reference["name"])
            if data is None and not reference.get("optional"):
                raise config_problem(f"envFrom: {kind} {reference['name']!r} does not exist")
            # Keys that are no names of variables are left out, as upstream leaves them out.
            named = {source.prefix + key: value for key, value in (data or {}).items()}
            variables |= {name: value for name, value in named.items() if _NAME.fullmatch(name)}
    return variables


def _value(pod: Pod, container: Container, variable: EnvVar, around: Surroundings) -> str | None:
    source = variable.value_from
    if source is None:
        return variable.value
    if "fieldRef" in source:
        return _field(pod, variable, source["fieldRef"].get("fieldPath", ""), around)
    if "resourceFieldRef" in source:
        return _resource(pod, container, variable, source["resourceFieldRef"], around)
    for kind, reference in _kinds(source.get("configMapKeyRef"), source.get("secretKeyRef")):
        return _key(variable, kind, reference, around.lookup)
    raise config_problem(f"variable {variable.name}: valueFrom {', '.join(source)} is not supported")


def _key(variable: EnvVar, kind: str, reference: Mapping[str, Any], lookup: Lookup) -> str | None:
    name, key = reference["name"], reference.get("key", "")
    data = lookup(kind, name)
    if data is not None and key in data:
        return data[key]
    if reference.get("optional"):
        return None
    missing = f"{kind} {name!r} does not exist" if data is None else f"{kind} {name!r} has no key {key!r}"
    raise config_problem(f"variable {variable.name}: {missing}")


def _field(pod: Pod, variable: EnvVar, path: str, around: Surroundings) -> str:
    fields = {
        "metadata.name": pod.name,
        "metadata.namespace": pod.namespace,
        "metadata.uid": pod.uid,
        "spec.nodeName": pod.spec.node_name,
        "spec.serviceAccountName": pod.spec.service_account_name,
        "status.hostIP": around.node_address,
        "status.hostIPs": around.node_address,
        "status.podIP": around.pod_address,
        "status.podIPs": around.pod_address,
    }
    if match := _MAP_KEY.fullmatch(path):
        values = pod.metadata.labels if match[1] == "labels" else pod.metadata.annotations
        return values.get(match[2], "")
    if path not in fields:
        raise config_problem(
            f"variable {variable.name}: fieldPath {path!r} is not one that an environment can have"
        )
    return fields[path]


def _resource(
    pod: Pod, container: Container, variable: EnvVar, reference: Mapping[str, Any], around: Surroundings
) -> str:
    """A request or limit in units of the divisor, rounded up; a limit that is not set is what the node
    has."""
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    name = reference.get("containerName") or container.name
    of = next((each for each in containers if each.name == name), None)
    kind, _, resource = str(reference.get("resource", "")).partition(".")
    if of is None or kind not in ("limits", "requests") or not resource:
        raise config_problem(
            f"variable {variable.name}: there is no resource {reference.get('resource')!r} of {name}"
        )
    limit = of.resources.get("limits", {}).get(resource)
    value = limit if kind == "limits" else of.resources.get("requests", {}).get(resource, limit)
    try:
        amount = parse_quantity(value or (around.allocatable.get(resource, "0") if kind == "limits" else "0"))
        divisor = parse_quantity(reference.get("divisor") or "1") or parse_quantity("1")
    except InvalidQuantity as error:
        raise config_problem(f"variable {variable.name}: {error}") from error
    return str(int((amount / divisor).to_integral_value(ROUND_CEILING)))
