"""Further workloads: DaemonSet, ReplicationController, Job, CronJob. Their controllers are upstream's."""

from collections.abc import Mapping
from typing import ClassVar

from mooring.apiserver.defaults import Rules, fill, under
from mooring.apiserver.dotted import object_at, strings_at, text_at, value_at
from mooring.apiserver.errors import FieldError, Obj, required, unsupported
from mooring.apiserver.strategies.pods import POD_SPEC, PodTemplates, validate_pod_spec
from mooring.apiserver.strategy import IMMUTABLE, Admission, Strategy

_JOB_SPEC: Rules = {"backoffLimit": 6, "completionMode": "NonIndexed", "suspend": False, "manualSelector": False,
                    "podReplacementPolicy": "TerminatingOrFailed"}  # fmt: skip
_TEMPLATE = under("spec.template.spec", POD_SPEC)


class DaemonSets(PodTemplates):
    """DaemonSets."""

    defaults: ClassVar[Rules] = {"spec.updateStrategy.type": "RollingUpdate", "spec.revisionHistoryLimit": 10}
    immutable: ClassVar[Mapping[str, str]] = {"spec.selector": IMMUTABLE}

    def default(self, obj: Obj) -> None:
        super().default(obj)
        strategy = obj["spec"]["updateStrategy"]
        if strategy.get("type") == "RollingUpdate":
            strategy["rollingUpdate"] = {"maxUnavailable": 1, "maxSurge": 0} | object_at(strategy, "rollingUpdate")

    def prepare_create(self, obj: Obj, admission: Admission) -> None:
        _number_template(obj, 1)

    def prepare_update(self, obj: Obj, old: Obj, admission: Admission) -> None:
        before = int(strings_at(old, "metadata.annotations").get(_TEMPLATE_GENERATION, "1"))
        _number_template(obj, before + (obj["spec"].get("template") != old["spec"].get("template")))


_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"


def _number_template(obj: Obj, generation: int) -> None:
    obj["metadata"]["annotations"] = strings_at(obj, "metadata.annotations") | {_TEMPLATE_GENERATION: str(generation)}


class ReplicationControllers(PodTemplates):
    """ReplicationControllers: the selector is a plain map, by default the template's labels."""

    defaults: ClassVar[Rules] = {"spec.replicas": 1}

    def default(self, obj: Obj) -> None:
        super().default(obj)
        labels = strings_at(obj, "spec.template.metadata.labels")
        if labels and not object_at(obj, "spec.selector"):
            obj["spec"]["selector"] = dict(labels)
        if labels and not strings_at(obj, "metadata.labels"):
            obj["metadata"]["labels"] = dict(labels)

    def fields(self, obj: Obj) -> Mapping[str, str]:
        return {"status.replicas": str(value_at(obj, "status.replicas") or 0)}


class Jobs(Strategy):
    """Jobs: the server makes the selector, of the job's uid, unless the client says `manualSelector`."""

    defaults: ClassVar[Rules] = {**under("spec", _JOB_SPEC), **_TEMPLATE}
    immutable: ClassVar[Mapping[str, str]] = {
        "spec.completions": IMMUTABLE, "spec.selector": IMMUTABLE, "spec.template": IMMUTABLE,
        "spec.completionMode": IMMUTABLE, "spec.podFailurePolicy": IMMUTABLE, "spec.backoffLimitPerIndex": IMMUTABLE,
    }  # fmt: skip
    counts_generations = True
    orphans_by_default = True

    def default(self, obj: Obj) -> None:
        super().default(obj)
        spec = object_at(obj, "spec")
        if spec.get("completions") is None and spec.get("parallelism") is None:
            spec["completions"] = 1
        fill(obj, {"spec.parallelism": 1})

    def prepare_create(self, obj: Obj, admission: Admission) -> None:
        if value_at(obj, "spec.manualSelector"):
            return
        uid, name = text_at(obj, "metadata.uid"), text_at(obj, "metadata.name")
        own = {"controller-uid": uid, "job-name": name}
        own |= {f"batch.kubernetes.io/{key}": value for key, value in own.items()}
        metadata = obj["spec"]["template"].setdefault("metadata", {})
        metadata["labels"] = strings_at(metadata, "labels") | own
        obj["spec"]["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}

    def validate(self, obj: Obj) -> list[FieldError]:
        spec = object_at(obj, "spec.template.spec")
        found = validate_pod_spec(spec, "spec.template.spec")
        if spec.get("restartPolicy") == "Always":
            told = unsupported("spec.template.spec.restartPolicy", "Always", ("OnFailure", "Never"))
            found.append(told)
        return found

    def fields(self, obj: Obj) -> Mapping[str, str]:
        return {"status.successful": str(value_at(obj, "status.succeeded") or 0)}


class CronJobs(Strategy):
    """CronJobs."""

    counts_generations = True
    defaults: ClassVar[Rules] = {
        "spec.concurrencyPolicy": "Allow",
        "spec.suspend": False,
        "spec.successfulJobsHistoryLimit": 3,
        "spec.failedJobsHistoryLimit": 1,
        **under("spec.jobTemplate.spec.template.spec", POD_SPEC),
    }

    def validate(self, obj: Obj) -> list[FieldError]:
        return [] if text_at(obj, "spec.schedule") else [required("spec.schedule")]
