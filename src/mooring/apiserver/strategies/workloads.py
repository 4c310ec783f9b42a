"""StatefulSet, ReplicaSet, Deployment, ControllerRevision and PodDisruptionBudget."""

from collections.abc import Mapping
from typing import ClassVar

from mooring.apiserver.defaults import Rules
from mooring.apiserver.dotted import object_at, value_at
from mooring.apiserver.errors import FieldError, Obj, forbidden_field, invalid_value
from mooring.apiserver.strategies.pods import PodTemplates
from mooring.apiserver.strategy import IMMUTABLE, Strategy

_STATEFULSET_MUTABLE = frozenset({
    "replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy", "minReadySeconds",
})  # fmt: skip

_MANAGEMENT = ("OrderedReady", "Parallel")
_STATEFULSET_FORBIDDEN = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)


class StatefulSets(PodTemplates):
    """StatefulSets: most of the spec is fixed at creation."""

    defaults: ClassVar[Rules] = {
        "spec.replicas": 1,
        "spec.podManagementPolicy": "OrderedReady",
        "spec.updateStrategy.type": "RollingUpdate",
        "spec.revisionHistoryLimit": 10,
        "spec.persistentVolumeClaimRetentionPolicy.whenDeleted": "Retain",
        "spec.persistentVolumeClaimRetentionPolicy.whenScaled": "Retain",
        "spec.volumeClaimTemplates[].apiVersion": "v1",
        "spec.volumeClaimTemplates[].kind": "PersistentVolumeClaim",
        "spec.volumeClaimTemplates[].spec.volumeMode": "Filesystem",
        "spec.volumeClaimTemplates[].status.phase": "Pending",
    }

    def default(self, obj: Obj) -> None:
        super().default(obj)
        _default_rolling_update(obj["spec"]["updateStrategy"], {"partition": 0})

    def validate(self, obj: Obj) -> list[FieldError]:
        policy = value_at(obj, "spec.podManagementPolicy")
        told = "must be 'OrderedReady' or 'Parallel'"
        wrong = [] if policy in _MANAGEMENT else [invalid_value("spec.podManagementPolicy", policy, told)]
        return wrong + super().validate(obj)

    def validate_update(self, obj: Obj, old: Obj) -> list[FieldError]:
        before, after = _fixed_part(old), _fixed_part(obj)
        return [forbidden_field("spec", _STATEFULSET_FORBIDDEN)] if before != after else []


def _fixed_part(statefulset: Obj) -> Obj:
    spec = object_at(statefulset, "spec")
    return {key: value for key, value in spec.items() if key not in _STATEFULSET_MUTABLE and value is not None}


def _default_rolling_update(strategy: Obj, defaults: Obj) -> None:
    if strategy.get("type") == "RollingUpdate":
        strategy["rollingUpdate"] = defaults | object_at(strategy, "rollingUpdate")


class ReplicaSets(PodTemplates):
    """ReplicaSets."""

    defaults: ClassVar[Rules] = {"spec.replicas": 1}
    immutable: ClassVar[Mapping[str, str]] = {"spec.selector": IMMUTABLE}

    def fields(self, obj: Obj) -> Mapping[str, str]:
        return {"status.replicas": str(value_at(obj, "status.replicas") or 0)}


class Deployments(PodTemplates):
    """Deployments."""

    defaults: ClassVar[Rules] = {
        "spec.replicas": 1,
        "spec.strategy.type": "RollingUpdate",
        "spec.revisionHistoryLimit": 10,
        "spec.progressDeadlineSeconds": 600,
    }
    immutable: ClassVar[Mapping[str, str]] = {"spec.selector": IMMUTABLE}
    status_keeps = ("labels",)
    generation_counts = ("annotations",)

    def default(self, obj: Obj) -> None:
        super().default(obj)
        _default_rolling_update(obj["spec"]["strategy"], {"maxUnavailable": "25%", "maxSurge": "25%"})


class ControllerRevisions(Strategy):
    """ControllerRevisions: the data never changes."""

    immutable: ClassVar[Mapping[str, str]] = {"data": IMMUTABLE}


class DisruptionBudgets(Strategy):
    """PodDisruptionBudgets."""

    counts_generations = True
    unconditional_update = False

    def validate(self, obj: Obj) -> list[FieldError]:
        spec = object_at(obj, "spec")
        for field in ("minAvailable", "maxUnavailable"):
            share = spec.get(field)
            if isinstance(share, str) and share.rstrip("%").isdecimal() and int(share.rstrip("%")) > 100:
                return [invalid_value(f"spec.{field}", share, "must not be greater than 100%")]
        if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
            return [invalid_value("spec", spec, "minAvailable and maxUnavailable cannot be both set")]
        return []
