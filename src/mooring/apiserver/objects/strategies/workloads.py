"""StatefulSet, ReplicaSet, Deployment, ControllerRevision and PodDisruptionBudget."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from mooring.apiserver.errors import FieldError, Obj, forbidden_field
from mooring.apiserver.objects.defaults import Rules
from mooring.apiserver.objects.strategies.pods import PodTemplates
from mooring.apiserver.objects.strategy import IMMUTABLE, Strategy
from mooring.apiserver.objects.validation import configuration
from mooring.apiserver.objects.validation import workloads as valid
from mooring.apiserver.objects.validation.formats import label_error, path_segment_error
from mooring.apiserver.values.dotted import object_at, value_at

_STATEFULSET_MUTABLE = frozenset({
    "replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy", "minReadySeconds",
})  # fmt: skip

_STATEFULSET_FORBIDDEN = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)


def _rolling_without_type(strategy: Obj) -> Obj | None:
    return None if strategy.get("type") else {}


class StatefulSets(PodTemplates):
    """StatefulSets: most of the spec is fixed at creation."""

    judges_base = False
    name_error = staticmethod(label_error)
    defaults: ClassVar[Rules] = {
        "spec.replicas": 1,
        "spec.podManagementPolicy": "OrderedReady",
        "spec.updateStrategy.rollingUpdate": _rolling_without_type,
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
        strategy = obj["spec"]["updateStrategy"]
        if strategy.get("type") == "RollingUpdate" and "rollingUpdate" in strategy:
            strategy["rollingUpdate"] = {"partition": 0} | object_at(strategy, "rollingUpdate")

    def validate(self, obj: Obj) -> list[FieldError]:
        # Parts that cannot change, such as claims of an older server, are checked at creation: see
        # `validate_new`.
        return list(valid.stateful_set(obj, new=False))

    def validate_new(self, obj: Obj) -> list[FieldError]:
        return list(valid.stateful_set(obj))

    def validate_update(self, obj: Obj, old: Obj) -> list[FieldError]:
        before, after = _fixed_part(old), _fixed_part(obj)
        return [forbidden_field("spec", _STATEFULSET_FORBIDDEN)] if before != after else []


def _fixed_part(statefulset: Obj) -> Obj:
    spec = object_at(statefulset, "spec")
    return {
        key: value for key, value in spec.items() if key not in _STATEFULSET_MUTABLE and value is not None
    }


def _default_rolling_update(strategy: Obj, defaults: Obj) -> None:
    if strategy.get("type") == "RollingUpdate":
        strategy["rollingUpdate"] = defaults | object_at(strategy, "rollingUpdate")


class ReplicaSets(PodTemplates):
    """ReplicaSets."""

    judges_base = False
    rules = (valid.replica_set,)
    defaults: ClassVar[Rules] = {"spec.replicas": 1}
    immutable: ClassVar[Mapping[str, str]] = {"spec.selector": IMMUTABLE}

    def fields(self, obj: Obj) -> Mapping[str, str]:
        return {"status.replicas": str(value_at(obj, "status.replicas") or 0)}


class Deployments(PodTemplates):
    """Deployments."""

    judges_base = False
    rules = (valid.deployment,)
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

    rules = (configuration.revision,)
    new_rules = (configuration.new_revision,)
    immutable: ClassVar[Mapping[str, str]] = {"data": IMMUTABLE}


class DisruptionBudgets(Strategy):
    """PodDisruptionBudgets: their metadata is validated as little as upstream does."""

    name_error = staticmethod(path_segment_error)
    kube_finalizers = False

    judges_base = False
    rules = (valid.disruption_budget,)
    counts_generations = True
    unconditional_update = False
