"""StatefulSet, ReplicaSet, Deployment, ControllerRevision and PodDisruptionBudget."""

from collections.abc import Mapping

from mooring.apiserver.errors import FieldError, Obj, forbidden_field, invalid_value
from mooring.apiserver.strategies.pods import PodTemplates
from mooring.apiserver.strategy import Admission, Strategy

_STATEFULSET_MUTABLE = frozenset({
    "replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy", "minReadySeconds",
})  # fmt: skip

_STATEFULSET_FORBIDDEN = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)


def _partition(strategy: Obj) -> int | None:
    return 0 if strategy.get("type") == "RollingUpdate" else None


class StatefulSets(PodTemplates):
    """StatefulSets: most of the spec is fixed at creation."""

    defaults = {
        "spec.replicas": 1,
        "spec.podManagementPolicy": "OrderedReady",
        "spec.updateStrategy.type": "RollingUpdate",
        "spec.revisionHistoryLimit": 10,
        "spec.persistentVolumeClaimRetentionPolicy.whenDeleted": "Retain",
        "spec.persistentVolumeClaimRetentionPolicy.whenScaled": "Retain",
        "spec.volumeClaimTemplates[].apiVersion": "v1",
        "spec.volumeClaimTemplates[].kind": "PersistentVolumeClaim",
        "spec.volumeClaimTemplates[].metadata.creationTimestamp": None,
        "spec.volumeClaimTemplates[].spec.volumeMode": "Filesystem",
        "spec.volumeClaimTemplates[].status.phase": "Pending",
    }

    def default(self, obj: Obj) -> None:
        super().default(obj)
        update: Obj = obj["spec"]["updateStrategy"]
        if update["type"] == "RollingUpdate":
            rolling: Obj = update.get("rollingUpdate") or {}
            update["rollingUpdate"] = rolling
            rolling.setdefault("partition", 0)

    def prepare_create(self, obj: Obj, admission: Admission) -> None:
        obj["status"] = {"replicas": 0, "availableReplicas": 0}

    def validate_update(self, obj: Obj, old: Obj) -> list[FieldError]:
        def fixed(spec: Obj) -> Obj:
            return {key: value for key, value in spec.items() if key not in _STATEFULSET_MUTABLE and value is not None}

        if fixed(obj["spec"]) != fixed(old["spec"]):
            return [forbidden_field("spec", _STATEFULSET_FORBIDDEN)]
        return []


class ReplicaSets(PodTemplates):
    """ReplicaSets."""

    defaults = {"spec.replicas": 1}
    immutable = {"spec.selector": "field is immutable"}

    def prepare_create(self, obj: Obj, admission: Admission) -> None:
        obj["status"] = {"replicas": 0}

    def fields(self, obj: Obj) -> Mapping[str, str]:
        return {"status.replicas": str((obj.get("status") or {}).get("replicas", 0))}


class Deployments(PodTemplates):
    """Deployments."""

    defaults = {
        "spec.replicas": 1,
        "spec.strategy.type": "RollingUpdate",
        "spec.revisionHistoryLimit": 10,
        "spec.progressDeadlineSeconds": 600,
    }
    immutable = {"spec.selector": "field is immutable"}
    status_keeps = ("labels",)

    def default(self, obj: Obj) -> None:
        super().default(obj)
        strategy: Obj = obj["spec"]["strategy"]
        if strategy["type"] == "RollingUpdate":
            rolling: Obj = strategy.get("rollingUpdate") or {}
            strategy["rollingUpdate"] = rolling
            rolling.setdefault("maxUnavailable", "25%")
            rolling.setdefault("maxSurge", "25%")

    def prepare_create(self, obj: Obj, admission: Admission) -> None:
        obj["status"] = {}


class ControllerRevisions(Strategy):
    """ControllerRevisions: the data never changes."""

    immutable = {"data": "field is immutable"}


class DisruptionBudgets(Strategy):
    """PodDisruptionBudgets."""

    counts_generations = True
    unconditional_update = False

    def prepare_create(self, obj: Obj, admission: Admission) -> None:
        obj["status"] = {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}

    def validate(self, obj: Obj) -> list[FieldError]:
        spec: Obj = obj.get("spec") or {}
        if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
            return [invalid_value("spec", spec, "minAvailable and maxUnavailable cannot be both set")]
        return []
