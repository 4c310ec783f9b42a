"""Further workloads: DaemonSet, ReplicationController, Job, CronJob. Their controllers are upstream's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from mooring.apiserver.errors import FieldError, Obj, invalid_value
from mooring.apiserver.objects.defaults import Rules, fill, under
from mooring.apiserver.objects.strategies.pods import POD_SPEC, PodTemplates
from mooring.apiserver.objects.strategy import IMMUTABLE, Admission, Strategy
from mooring.apiserver.objects.validation import workloads as valid
from mooring.apiserver.values.dotted import object_at, objects_at, strings_at, text_at, value_at


def _backoff_limit(spec: Obj) -> int:
    return 6 if spec.get("backoffLimitPerIndex") is None else 2**31 - 1


def _replacement_policy(spec: Obj) -> str:
    return "TerminatingOrFailed" if spec.get("podFailurePolicy") is None else "Failed"


_JOB_SPEC: Rules = {
    "backoffLimit": _backoff_limit,
    "completionMode": "NonIndexed",
    "suspend": False,
    "manualSelector": False,
    "podReplacementPolicy": _replacement_policy,
}
_TEMPLATE = under("spec.template.spec", POD_SPEC)


class DaemonSets(PodTemplates):
    """DaemonSets."""

    changes_first = True
    judges_base = False
    rules = (valid.daemon_set,)
    defaults: ClassVar[Rules] = {"spec.updateStrategy.type": "RollingUpdate", "spec.revisionHistoryLimit": 10}
    immutable: ClassVar[Mapping[str, str]] = {"spec.selector": IMMUTABLE}

    def default(self, obj: Obj) -> None:
        super().default(obj)
        strategy = obj["spec"]["updateStrategy"]
        if strategy.get("type") == "RollingUpdate":
            strategy["rollingUpdate"] = {"maxUnavailable": 1, "maxSurge": 0} | object_at(
                strategy, "rollingUpdate"
            )

    def prepare_create(self, obj: Obj, admission: Admission) -> None:
        _number_template(obj, 1)

    def prepare_update(self, obj: Obj, old: Obj, admission: Admission) -> None:
        before = int(strings_at(old, "metadata.annotations").get(_TEMPLATE_GENERATION, "1"))
        _number_template(obj, before + (obj["spec"].get("template") != old["spec"].get("template")))


_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"


def _number_template(obj: Obj, generation: int) -> None:
    obj["metadata"]["annotations"] = strings_at(obj, "metadata.annotations") | {
        _TEMPLATE_GENERATION: str(generation)
    }


class ReplicationControllers(PodTemplates):
    """ReplicationControllers: the selector is a plain map, by default the template's labels."""

    judges_base = False
    any_base = True
    rules = (valid.replication_controller,)
    template_defaults: ClassVar[Rules] = under("spec.template?.spec", POD_SPEC)
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


def _completions_errors(spec: Obj, old: Obj) -> list[FieldError]:
    """How often a job runs is fixed, unless it is indexed and as many run at once."""
    completions = spec.get("completions")
    if completions == old.get("completions"):
        return []
    if spec.get("completionMode") != "Indexed":
        return [invalid_value("spec.completions", completions, IMMUTABLE)]
    if completions is None or completions == spec.get("parallelism"):
        return []
    return [
        invalid_value("spec.completions", completions, "can only be modified in tandem with spec.parallelism")
    ]


def _with_resources(container: Obj, other: Obj) -> Obj:
    """A container with the resources of another one of its name."""
    if container.get("name") != other.get("name"):
        return container
    return container | {"resources": other.get("resources")}


def _fixed_pod(spec: Obj, wanted: Obj) -> Obj:
    """The spec of a suspended job's pods, with what may change taken from what is wanted."""
    fixed = {key: value for key, value in spec.items() if key not in _DIRECTIVES}
    affinity = {key: value for key, value in object_at(spec, "affinity").items() if key != "nodeAffinity"}
    for group in ("containers", "initContainers"):
        pairs = zip(objects_at(spec, group), objects_at(wanted, group), strict=False)
        made = [_with_resources(each, other) for each, other in pairs]
        fixed[group] = [*made, *objects_at(spec, group)[len(made) :]]
    return fixed | {"affinity": affinity}


_DIRECTIVES = ("nodeSelector", "tolerations", "schedulingGates", "affinity")


class Jobs(Strategy):
    """Jobs: the server makes the selector, of the job's uid, unless the client says `manualSelector`."""

    judges_base = False
    rules = (valid.job,)
    defaults: ClassVar[Rules] = {**under("spec", _JOB_SPEC), **_TEMPLATE}
    immutable: ClassVar[Mapping[str, str]] = {
        "spec.selector": IMMUTABLE, "spec.completionMode": IMMUTABLE, "spec.podFailurePolicy": IMMUTABLE,
        "spec.backoffLimitPerIndex": IMMUTABLE,
        "spec.managedBy": IMMUTABLE, "spec.successPolicy": IMMUTABLE,
    }  # fmt: skip
    counts_generations = True
    orphans_by_default = True

    def default(self, obj: Obj) -> None:
        super().default(obj)
        spec = object_at(obj, "spec")
        if spec.get("completions") is None and spec.get("parallelism") is None:
            spec["completions"] = 1
        fill(obj, {"spec.parallelism": 1})
        labels = strings_at(obj, "spec.template.metadata.labels")
        if labels and not strings_at(obj, "metadata.labels"):
            obj["metadata"]["labels"] = dict(labels)
        for rule in objects_at(obj, "spec.podFailurePolicy.rules"):
            for pattern in objects_at(rule, "onPodConditions"):
                pattern["status"] = pattern.get("status") or "True"

    def prepare_create(self, obj: Obj, admission: Admission) -> None:
        if value_at(obj, "spec.manualSelector"):
            return
        uid, name = text_at(obj, "metadata.uid"), text_at(obj, "metadata.name")
        own = {"controller-uid": uid, "job-name": name}
        own |= {f"batch.kubernetes.io/{key}": value for key, value in own.items()}
        metadata = obj["spec"]["template"].setdefault("metadata", {})
        metadata["labels"] = own | strings_at(metadata, "labels")
        # A selector of the client's own is kept: the rules report that it does not fit.
        selector = object_at(obj, "spec.selector")
        wanted = {"batch.kubernetes.io/controller-uid": uid} | strings_at(selector, "matchLabels")
        obj["spec"]["selector"] = selector | {"matchLabels": wanted}

    def validate_update(self, obj: Obj, old: Obj) -> list[FieldError]:
        before, after = object_at(old, "spec"), object_at(obj, "spec")
        errors = _completions_errors(after, before)
        if before.get("suspend"):
            # Where and with how much the pods will run may still change (KEP-2926, KEP-5440).
            pod, fixed = object_at(after, "template.spec"), object_at(before, "template.spec")
            if _fixed_pod(pod, pod) != _fixed_pod(fixed, pod):
                errors.append(invalid_value("spec.template.spec", pod, IMMUTABLE))
        elif after.get("template") != before.get("template"):
            errors.append(invalid_value("spec.template", after.get("template"), IMMUTABLE))
        return [*errors, *super().validate_update(obj, old)]

    def fields(self, obj: Obj) -> Mapping[str, str]:
        return {"status.successful": str(value_at(obj, "status.succeeded") or 0)}


class CronJobs(Strategy):
    """CronJobs."""

    judges_base = False
    rules = (valid.cron_job,)
    new_rules = (valid.cron_job_name,)
    counts_generations = True
    defaults: ClassVar[Rules] = {
        "spec.concurrencyPolicy": "Allow",
        "spec.suspend": False,
        "spec.successfulJobsHistoryLimit": 3,
        "spec.failedJobsHistoryLimit": 1,
        **under("spec.jobTemplate.spec.template.spec", POD_SPEC),
    }
