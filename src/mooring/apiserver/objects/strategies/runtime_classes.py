"""RuntimeClasses, and what upstream's admission plugin RuntimeClass makes of the pods that name one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar, NoReturn

from mooring.apiserver.errors import Obj, Resource, forbidden
from mooring.apiserver.objects.strategy import IMMUTABLE, Strategy
from mooring.apiserver.objects.validation import runtime_classes as valid
from mooring.apiserver.values.dotted import object_at, objects_at, strings_at, text_at
from mooring.kube.quantity import parse_quantity

RUNTIME_CLASSES = "runtimeclasses.node.k8s.io"


class RuntimeClasses(Strategy):
    """RuntimeClasses: a class keeps its handler."""

    rules = (valid.runtime_class,)
    unconditional_update = False
    immutable: ClassVar[Mapping[str, str]] = {"handler": IMMUTABLE}


def apply_runtime_class(pod: Obj, classes: Iterable[Obj]) -> None:
    """Gives a new pod what its class says: overhead, node selector, tolerations. Raises Forbidden if there is
    no such class, or if the pod says something else itself."""
    name = text_at(pod, "spec.runtimeClassName")
    if not name:
        return
    found = next((each for each in classes if text_at(each, "metadata.name") == name), None)
    if found is None:
        _reject(pod, f'pod rejected: RuntimeClass "{name}" not found')
    spec = object_at(pod, "spec")
    _add_overhead(pod, spec, object_at(found, "overhead.podFixed"))
    _add_node_selector(pod, spec, strings_at(found, "scheduling.nodeSelector"))
    if added := objects_at(found, "scheduling.tolerations"):
        spec["tolerations"] = _merged([*objects_at(spec, "tolerations"), *added])


def refuse_own_overhead(pod: Obj) -> None:
    """A pod without a class has no overhead. Raises Forbidden."""
    if object_at(pod, "spec").get("overhead") is not None and not text_at(pod, "spec.runtimeClassName"):
        _reject(pod, _NOT_DEFINED)


_NOT_DEFINED = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"


def _add_overhead(pod: Obj, spec: Obj, fixed: Obj) -> None:
    own = object_at(spec, "overhead")
    if not fixed:
        if own:
            _reject(pod, _NOT_DEFINED)
        return
    if own and _amounts(own) != _amounts(fixed):
        _reject(pod, "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
    spec["overhead"] = dict(fixed)


def _amounts(resources: Obj) -> dict[str, object]:
    """Quantities by their values: 1 and 1000m are one amount."""
    return {name: parse_quantity(value) for name, value in resources.items()}


def _add_node_selector(pod: Obj, spec: Obj, wanted: Mapping[str, str]) -> None:
    own = strings_at(spec, "nodeSelector")
    for key, value in wanted.items():
        if own.get(key, value) != value:
            said = f"runtimeClass.scheduling.nodeSelector[{key}] = {value}"
            _reject(pod, f"conflict: {said}; pod.spec.nodeSelector[{key}] = {own[key]}")
    if wanted:
        spec["nodeSelector"] = {**own, **wanted}


def _merged(tolerations: list[Obj]) -> list[Obj]:
    """Without those that another one covers; of two alike, the first."""
    kept: list[Obj] = []
    for index, each in enumerate(tolerations):
        later = [other for other in tolerations[index + 1 :] if other != each]
        if not any(_covers(other, each) for other in (*kept, *later)):
            kept.append(each)
    return kept


def _covers(wide: Obj, narrow: Obj) -> bool:
    """Whether every taint that `narrow` tolerates is tolerated by `wide`, for as long."""
    if wide == narrow:
        return True
    everything = not wide.get("key") and wide.get("operator") == "Exists"
    if wide.get("key") != narrow.get("key") and not everything:
        return False
    if wide.get("effect") and wide.get("effect") != narrow.get("effect"):
        return False
    longest, wanted = wide.get("tolerationSeconds"), narrow.get("tolerationSeconds")
    if wide.get("effect") == "NoExecute" and longest is not None and (wanted is None or wanted > longest):
        return False
    if wide.get("operator") == "Exists":
        return True
    return all((wide.get(field) or "") == (narrow.get(field) or "") for field in ("operator", "value"))


def _reject(pod: Obj, why: str) -> NoReturn:
    raise forbidden(Resource("", "pods"), text_at(pod, "metadata.name"), why)
