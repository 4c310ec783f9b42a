"""The fields and resources of a pod that the downward API shows, as files. Pure.

Rules: Kubernetes' API reference of DownwardAPIVolumeSource. A limit that is not set is the node's
allocatable amount. Amounts are in units of the divisor, rounded up. Labels and annotations are
lines `key="value"`, sorted, with quotes escaped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING

from mooring.kube.objects import Container, DownwardAPIVolumeFile, Pod, ResourceFieldSelector
from mooring.kube.quantity import InvalidQuantity, parse_quantity
from mooring.volumes.errors import InvalidSpec
from mooring.volumes.key_files import DEFAULT_MODE
from mooring.volumes.payload import Payload, PayloadFile

_MAP_KEY = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")


def downward_files(
    items: Sequence[DownwardAPIVolumeFile], default_mode: int | None, pod: Pod, allocatable: Mapping[str, str]
) -> Payload:
    """Returns the files. Raises InvalidSpec for a field that a volume cannot show."""
    default = DEFAULT_MODE if default_mode is None else default_mode
    return {
        item.path: PayloadFile(
            _text(item, pod, allocatable).encode(), default if item.mode is None else item.mode
        )
        for item in items
    }


def _text(item: DownwardAPIVolumeFile, pod: Pod, allocatable: Mapping[str, str]) -> str:
    if item.field_ref is not None:
        return field_text(pod, item.field_ref.field_path)
    if item.resource_field_ref is not None:
        return resource_text(pod, item.resource_field_ref, allocatable)
    raise InvalidSpec(f"the downwardAPI file {item.path} names neither fieldRef nor resourceFieldRef")


def field_text(pod: Pod, path: str) -> str:
    """Returns a field of the pod that a volume can show. Raises InvalidSpec."""
    meta = pod.metadata
    maps = {"metadata.labels": meta.labels, "metadata.annotations": meta.annotations}
    plain = {"metadata.name": pod.name, "metadata.namespace": pod.namespace, "metadata.uid": pod.uid}
    if path in maps:
        return "\n".join(
            f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in sorted(maps[path].items())
        )
    if match := _MAP_KEY.fullmatch(path):
        return maps[f"metadata.{match[1]}"].get(match[2], "")
    if path not in plain:
        raise InvalidSpec(
            f"fieldPath {path!r} is not one that a volume can show: use name, namespace, uid, labels, ..."
        )
    return plain[path]


def resource_text(pod: Pod, reference: ResourceFieldSelector, allocatable: Mapping[str, str]) -> str:
    """Returns a request or limit of one of the pod's containers. Raises InvalidSpec."""
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    of = next((each for each in containers if each.name == reference.container_name), None)
    kind, _, resource = reference.resource.partition(".")
    if of is None or kind not in ("limits", "requests") or not resource:
        raise InvalidSpec(
            f"there is no resource {reference.resource!r} of container {reference.container_name!r}"
        )
    try:
        amount = parse_quantity(_amount(of, kind, resource, allocatable))
        divisor = parse_quantity(reference.divisor or "1") or parse_quantity("1")
    except InvalidQuantity as error:
        raise InvalidSpec(f"resource {reference.resource} of container {of.name}: {error}") from error
    return str(int((amount / divisor).to_integral_value(ROUND_CEILING)))


def _amount(container: Container, kind: str, resource: str, allocatable: Mapping[str, str]) -> str | int:
    limit = container.resources.get("limits", {}).get(resource)
    if kind == "limits":
        return limit or allocatable.get(resource, "0")
    return container.resources.get("requests", {}).get(resource, limit) or "0"
