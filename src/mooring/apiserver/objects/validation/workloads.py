"""Workloads: the kinds that create pods from a template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mooring.apiserver.errors import (
    FieldError,
    Obj,
    duplicate,
    forbidden_field,
    invalid_value,
    required,
    unsupported,
)
from mooring.apiserver.objects.validation.checks import (
    NONE,
    Check,
    Errors,
    always,
    at,
    each,
    entries,
    not_negative,
    objects,
    one_of,
    part,
    part_of,
    record,
    text,
    text_or_number,
    too_long,
    too_many,
)  # fmt: skip
from mooring.apiserver.objects.validation.claims import claim_spec
from mooring.apiserver.objects.validation.formats import domain_path_error, label_error, percent_error
from mooring.apiserver.objects.validation.labels import is_empty, is_readable, name_errors, selector, selects
from mooring.apiserver.objects.validation.pods import template
from mooring.apiserver.objects.validation.schedules import schedule_error, zone_error

_MISMATCH = "`selector` does not match template `labels`"
_ROLLING = ("RollingUpdate", "OnDelete")


share = text_or_number(percent_error, not_negative)
"""A number, not negative, or a share of one (`25%`)."""


def at_most_all(value: Any) -> Errors:
    """A share that is not above the whole."""
    above = isinstance(value, str) and percent_error(value) is None and int(value[:-1]) > 100
    return [invalid_value("", value, "must not be greater than 100%")] if above else NONE


def _number(value: Any) -> int:
    """The value of a share, as far as it is known whether that is zero."""
    if isinstance(value, str):
        return int(value[:-1]) if percent_error(value) is None else _digits(value)
    return int(value or 0)


def _digits(value: str) -> int:
    return int(value) if value.removeprefix("-").isascii() and value.removeprefix("-").isdecimal() else 0


def _selected_template(spec: Obj, kind: str, *, body: Check) -> list[FieldError]:
    """A template whose labels are selected, and whose pods always restart and run without a deadline."""
    errors: list[FieldError] = []
    wanted, made = spec.get("selector"), part(spec, "template")
    if not (wanted is not None and is_empty(wanted)) and not selects(wanted, _labels(made)):
        errors.append(invalid_value("metadata.labels", _labels(made) or None, _MISMATCH))
    errors += body(made)
    return at("template", [*errors, *_lasting(made, kind)])


def _labels(made: Obj) -> Mapping[str, str]:
    return part(part(made, "metadata"), "labels")


def _lasting(made: Obj, kind: str) -> list[FieldError]:
    spec = part(made, "spec")
    errors: list[FieldError] = []
    if (policy := spec.get("restartPolicy")) != "Always":
        errors.append(unsupported("spec.restartPolicy", policy or "", ("Always",)))
    if spec.get("activeDeadlineSeconds") is not None:
        detail = f"activeDeadlineSeconds in {kind} is not Supported"
        errors.append(forbidden_field("spec.activeDeadlineSeconds", detail))
    return errors


def _selecting(spec: Obj, kind: str, *, body: Check = template, owner: str = "") -> list[FieldError]:
    """A selector that asks for something, and the template that it selects."""
    wanted = spec.get("selector")
    errors: list[FieldError] = []
    if wanted is None:
        errors.append(required("selector"))
    else:
        errors += at("selector", selector(wanted))
        if is_empty(wanted):
            errors.append(
                invalid_value("selector", wanted, f"empty selector is invalid for {owner or 'deployment'}")
            )
    if wanted is not None and not is_readable(wanted):
        return [*errors, invalid_value("selector", wanted, "invalid label selector")]
    return [*errors, *_selected_template(spec, kind, body=body)]


def replica_set(obj: Obj) -> Errors:
    """A ReplicaSet."""
    spec = part(obj, "spec")
    return at("spec", [*_SCALED(spec), *_selecting(spec, "ReplicaSet")])


_SCALED = record(("replicas", not_negative), ("minReadySeconds", not_negative))


def deployment(obj: Obj) -> Errors:
    """A Deployment."""
    spec = part(obj, "spec")
    errors = at("replicas", not_negative(spec.get("replicas")))
    errors += [*_selecting(spec, "ReplicaSet"), *_DEPLOYMENT(spec)]
    deadline, ready = spec.get("progressDeadlineSeconds"), spec.get("minReadySeconds") or 0
    if deadline is not None and deadline <= ready:
        errors.append(
            invalid_value("progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")
        )
    return at("spec", errors)


def _deployment_strategy(strategy: Obj) -> Errors:
    kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
    if kind == "Recreate":
        detail = "may not be specified when strategy `type` is 'Recreate'"
        return [forbidden_field("rollingUpdate", detail)] if rolling is not None else NONE
    if kind != "RollingUpdate":
        return [unsupported("", strategy, ("Recreate", "RollingUpdate"))]
    if rolling is None:
        return [required("rollingUpdate", "this should be defaulted and never be nil")]
    errors = list(_SHARES(rolling))
    missing = rolling.get("maxUnavailable")
    if not _number(missing) and not _number(rolling.get("maxSurge")):
        errors.append(invalid_value("maxUnavailable", missing, "may not be 0 when `maxSurge` is 0"))
    return at("rollingUpdate", [*errors, *at("maxUnavailable", at_most_all(missing))])


_SHARES = record(("maxUnavailable", share), ("maxSurge", share))
_DEPLOYMENT = record(
    ("strategy", _deployment_strategy), ("minReadySeconds", not_negative), ("revisionHistoryLimit", not_negative),
    ("progressDeadlineSeconds", not_negative),
)  # fmt: skip


def daemon_set(obj: Obj) -> Errors:
    """A DaemonSet."""
    spec = part(obj, "spec")
    wanted, made = spec.get("selector"), part(spec, "template")
    errors = at("selector", selector(wanted or {}))
    if (wanted is None or is_readable(wanted)) and not selects(wanted, _labels(made)):
        errors.append(invalid_value("template.metadata.labels", _labels(made) or None, _MISMATCH))
    if wanted is not None and is_empty(wanted):
        errors.append(invalid_value("selector", wanted, "empty selector is invalid for daemonset"))
    errors += at("template", [*template(made), *_lasting(made, "DaemonSet")])
    return at("spec", [*errors, *_DAEMON_SET(spec)])


def _daemon_strategy(strategy: Obj) -> Errors:
    kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
    if kind == "OnDelete":
        return NONE
    if kind != "RollingUpdate":
        return [unsupported("", strategy, _ROLLING)]
    if rolling is None:
        return [required("rollingUpdate")]
    missing, surge = rolling.get("maxUnavailable"), rolling.get("maxSurge")
    errors = [
        *_SHARES(rolling),
        *at("maxUnavailable", at_most_all(missing)),
        *at("maxSurge", at_most_all(surge)),
    ]
    if _number(missing) and _number(surge):
        errors.append(invalid_value("maxSurge", surge, "may not be set when maxUnavailable is non-zero"))
    if not _number(missing) and not _number(surge):
        errors.append(required("maxUnavailable", "cannot be 0 when maxSurge is 0"))
    return at("rollingUpdate", errors)


_DAEMON_SET = record(
    ("minReadySeconds", not_negative),
    ("updateStrategy", _daemon_strategy),
    ("revisionHistoryLimit", not_negative),
)


def replication_controller(obj: Obj) -> Errors:
    """A ReplicationController: its selector is a plain map."""
    spec = part(obj, "spec")
    wanted: Mapping[str, str] = part(spec, "selector")
    errors = at("minReadySeconds", not_negative(spec.get("minReadySeconds")))
    if not wanted:
        errors.append(required("selector"))
    errors += at("replicas", not_negative(spec.get("replicas")))
    made = spec.get("template")
    if made is None:
        return at("spec", [*errors, required("template")])
    wrong: list[FieldError] = []
    if not selects({"matchLabels": wanted}, _labels(made)):
        wrong.append(invalid_value("metadata.labels", _labels(made) or None, _MISMATCH))
    return at(
        "spec",
        [*errors, *at("template", [*wrong, *template(made), *_lasting(made, "ReplicationController")])],
    )


def _stateful_strategy(strategy: Obj) -> Errors:
    kind, rolling = strategy.get("type") or "", strategy.get("rollingUpdate")
    if not kind:
        return [required("")]
    if kind not in _ROLLING:
        return [invalid_value("", strategy, "must be 'RollingUpdate' or 'OnDelete'")]
    if rolling is None:
        return NONE
    if kind == "OnDelete":
        return [invalid_value("rollingUpdate", rolling, "only allowed for updateStrategy 'RollingUpdate'")]
    errors = at("partition", not_negative(rolling.get("partition")))
    missing = rolling.get("maxUnavailable")
    if missing is not None:
        errors += at("maxUnavailable", share(missing))
        if not _number(missing):
            errors.append(invalid_value("maxUnavailable", missing, "cannot be 0"))
        errors += at("maxUnavailable", at_most_all(missing))
    return at("rollingUpdate", errors)


_retention = one_of("Retain", "Delete")


def _claim_template(value: Obj) -> Errors:
    return at("spec", claim_spec(part(value, "spec")))


def stateful_set(obj: Obj, *, new: bool = True) -> Errors:
    """A StatefulSet. Fields that cannot change are checked at creation only."""
    spec = part(obj, "spec")
    policy = spec.get("podManagementPolicy") or ""
    errors: list[FieldError] = [] if policy else [required("podManagementPolicy")]
    if policy and policy not in ("OrderedReady", "Parallel"):
        errors.append(invalid_value("podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'"))
    errors += _STATEFUL(spec)
    claims = objects(spec.get("volumeClaimTemplates"))
    if new:
        errors += at("volumeClaimTemplates", each(_claim_template)(claims))
    errors += [*_SCALED(spec), *at("ordinals", _ORDINALS(part(spec, "ordinals")))]
    if new:
        errors += at("serviceName", text(label_error)(spec.get("serviceName")))
    names = [part(claim, "metadata").get("name") or "" for claim in claims]

    def body(made: Obj) -> Errors:
        return template(made, names, ignored=("hostname", "subdomain"))

    return at("spec", [*errors, *_selecting(spec, "StatefulSet", body=body, owner="statefulset")])


_STATEFUL = record(
    ("updateStrategy", _stateful_strategy),
    (
        "persistentVolumeClaimRetentionPolicy",
        record(("whenDeleted", always(_retention)), ("whenScaled", always(_retention))),
    ),
)
_ORDINALS = record(("start", not_negative))


def job(obj: Obj) -> Errors:
    """A Job."""
    metadata, spec = obj["metadata"], part(obj, "spec")
    errors = [*_generated(obj), *at("spec", job_spec(spec))]
    wanted, made = spec.get("selector"), part(spec, "template")
    errors += [required("spec.selector")] if wanted is None else at("spec.selector", selector(wanted))
    if (wanted is None or is_readable(wanted)) and not selects(wanted, _labels(made)):
        errors.append(invalid_value("spec.template.metadata.labels", _labels(made) or None, _MISMATCH))
    if spec.get("completionMode") == "Indexed" and (spec.get("completions") or 0) > 0:
        last = f"{metadata.get('name')}-{spec['completions'] - 1}"
        if label_error(last) is not None:
            detail = f"will not able to create pod with invalid DNS label: {last}"
            errors.append(invalid_value("metadata.name", metadata.get("name"), detail))
    return errors


def _generated(obj: Obj) -> list[FieldError]:
    """The labels and the selector that a job gets unless it says `manualSelector`."""
    metadata, spec = obj["metadata"], part(obj, "spec")
    if spec.get("manualSelector") or spec.get("selector") is None:
        return []
    uid, name, own = metadata.get("uid") or "", metadata.get("name") or "", _labels(part(spec, "template"))
    expected = {"controller-uid": uid, "job-name": name}
    expected |= {f"batch.kubernetes.io/{key}": value for key, value in expected.items()}
    errors: list[FieldError] = []
    for key, value in expected.items():
        path, detail = f"spec.template.metadata.labels[{key}]", f"must be '{value}'"
        if key not in own:
            errors.append(required(path, detail))
        elif own[key] != value:
            errors.append(invalid_value(path, own, detail))
    if is_readable(spec["selector"]) and not selects(spec["selector"], expected):
        errors.append(invalid_value("spec.selector", spec["selector"], "`selector` not auto-generated"))
    return errors


_COUNTS = ("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished",
           "backoffLimitPerIndex", "maxFailedIndexes")  # fmt: skip
_JOB_COUNTS = record(*((name, not_negative) for name in _COUNTS))
_HIGH, _HIGH_LIMIT, _MOST_INDEXES = 100_000, 10_000, 100_000
_MODES = ("NonIndexed", "Indexed")


def job_spec(spec: Obj) -> Errors:
    """The spec of a job, or of the template of one."""
    errors = list(_JOB_COUNTS(spec))
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        errors.append(required("backoffLimitPerIndex", "when maxFailedIndexes is specified"))
    if (manager := spec.get("managedBy")) is not None:
        errors += at("managedBy", _manager(manager))
    mode = spec.get("completionMode")
    if mode not in (None, *_MODES):
        errors.append(unsupported("completionMode", mode, _MODES))
    if mode == "Indexed":
        errors += _indexed(spec)
    elif mode in (None, "NonIndexed"):
        fields = [
            field for field in ("backoffLimitPerIndex", "maxFailedIndexes") if spec.get(field) is not None
        ]
        errors += [invalid_value(field, spec[field], "requires indexed completion mode") for field in fields]
    if (policy := spec.get("podFailurePolicy")) is not None:
        errors += at("podFailurePolicy", _failure_policy(policy, spec))
    if (policy := spec.get("successPolicy")) is not None:
        detail = "requires indexed completion mode"
        errors += at(
            "successPolicy",
            _success_policy(policy, spec) if mode == "Indexed" else [invalid_value("", policy, detail)],
        )
    errors += at("podReplacementPolicy", _replacement(spec))
    made = part(spec, "template")
    return [*errors, *at("template", template(made)), *_job_restart(spec, made)]


def _manager(value: str) -> Errors:
    if not value:
        return [required("")]
    why = domain_path_error(value)
    errors: list[FieldError] = [invalid_value("", value, why)] if why is not None else []
    return [*errors, too_long("", 63)] if len(value) > 63 else errors


def _indexed(spec: Obj) -> list[FieldError]:
    completions, parallelism, failed = (
        spec.get(name) for name in ("completions", "parallelism", "maxFailedIndexes")
    )
    errors: list[FieldError] = []
    if completions is None:
        errors.append(required("completions", "when completion mode is Indexed"))
    if parallelism is not None and parallelism > _MOST_INDEXES:
        detail = f"must be less than or equal to {_MOST_INDEXES} when completion mode is Indexed"
        errors.append(invalid_value("parallelism", parallelism, detail))
    if completions is not None and failed is not None and failed > completions:
        errors.append(invalid_value("maxFailedIndexes", failed, "must be less than or equal to completions"))
    if failed is not None and failed > _MOST_INDEXES:
        errors.append(
            invalid_value("maxFailedIndexes", failed, f"must be less than or equal to {_MOST_INDEXES}")
        )
    if (completions or 0) <= _HIGH or spec.get("backoffLimitPerIndex") is None:
        return errors
    detail = (
        f"must be less than or equal to {_HIGH_LIMIT} when completions are above {_HIGH} and used with backoff limit "
        "per index"
    )
    if failed is None:
        errors.append(required("maxFailedIndexes", f"must be specified when completions is above {_HIGH}"))
    for name, value in (("parallelism", parallelism), ("maxFailedIndexes", failed)):
        if value is not None and value > _HIGH_LIMIT:
            errors.append(invalid_value(name, value, detail))
    return errors


def _job_restart(spec: Obj, made: Obj) -> list[FieldError]:
    path, policy = "template.spec.restartPolicy", part(made, "spec").get("restartPolicy") or ""
    if policy in ("", "Always"):
        return [required(path, 'valid values: "OnFailure", "Never"')]
    if policy not in ("OnFailure", "Never"):
        return [unsupported(path, policy, ("OnFailure", "Never"))]
    if spec.get("podFailurePolicy") is not None and policy != "Never":
        return [invalid_value(path, policy, 'only "Never" is supported when podFailurePolicy is specified')]
    return []


def _replacement(spec: Obj) -> Errors:
    policy = spec.get("podReplacementPolicy")
    if policy is None:
        return NONE
    return (
        one_of("Failed")(policy)
        if spec.get("podFailurePolicy") is not None
        else one_of("Failed", "TerminatingOrFailed")(policy)
    )


_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")


def _failure_policy(policy: Obj, spec: Obj) -> Errors:
    rules, pod = objects(policy.get("rules")), part(part(spec, "template"), "spec")
    errors: list[FieldError] = [too_many("rules", len(rules), 20)] if len(rules) > 20 else []
    names = {
        each.get("name") for group in ("containers", "initContainers") for each in objects(pod.get(group))
    }
    for index, rule in enumerate(rules):
        errors += at(f"rules[{index}]", _failure_rule(rule, spec, names))
    return errors


def _failure_rule(rule: Obj, spec: Obj, names: set[Any]) -> Errors:
    action, codes, conditions = (
        rule.get("action") or "",
        rule.get("onExitCodes"),
        objects(rule.get("onPodConditions")),
    )
    errors: list[FieldError] = []
    if not action:
        errors.append(required("action", f"valid values: {_quoted(_ACTIONS)}"))
    elif action == "FailIndex":
        if spec.get("backoffLimitPerIndex") is None:
            errors.append(invalid_value("action", action, "requires the backoffLimitPerIndex to be set"))
    elif action not in _ACTIONS:
        errors.append(unsupported("action", action, _ACTIONS))
    if codes is not None:
        errors += at("onExitCodes", _exit_codes(codes, names))
    if len(conditions) > 20:
        errors.append(too_many("onPodConditions", len(conditions), 20))
    errors += at("onPodConditions", each(_condition)(conditions))
    if codes is not None and conditions:
        errors.append(_about(rule, "specifying both OnExitCodes and OnPodConditions is not supported"))
    if codes is None and not conditions:
        errors.append(_about(rule, "specifying one of OnExitCodes and OnPodConditions is required"))
    return errors


def _about(rule: Obj, detail: str) -> FieldError:
    return FieldError("FieldValueInvalid", "", f"Invalid value: {detail}")


def _quoted(words: Sequence[str]) -> str:
    return "[" + " ".join(f'"{word}"' for word in words) + "]"


def _condition(pattern: Obj) -> Errors:
    status, allowed = pattern.get("status") or "", ("False", "True", "Unknown")
    errors = name_errors("type", pattern.get("type") or "")
    if not status:
        return [*errors, required("status", f"valid values: {_quoted(allowed)}")]
    return [*errors, *at("status", one_of(*allowed)(status))]


def _exit_codes(codes: Obj, names: set[Any]) -> Errors:
    operator, values, container = (
        codes.get("operator") or "",
        entries(codes, "values"),
        codes.get("containerName"),
    )
    errors: list[FieldError] = []
    if not operator:
        errors.append(required("operator", f"valid values: {_quoted(('In', 'NotIn'))}"))
    errors += at("operator", one_of("In", "NotIn")(operator)) if operator else []
    if container is not None and container not in names:
        detail = "must be one of the container or initContainer names in the pod template"
        errors.append(invalid_value("containerName", container, detail))
    if not values:
        errors.append(invalid_value("values", values, "at least one value is required"))
    elif len(values) > 255:
        errors.append(too_many("values", len(values), 255))
    first: dict[Any, int] = {}
    for index, code in enumerate(values):
        if operator == "In" and code == 0:
            errors.append(invalid_value(f"values[{index}]", code, "must not be 0 for the In operator"))
        if first.setdefault(code, index) < index:
            errors.append(duplicate(f"values[{index}]", code))
    return (
        errors if values == sorted(values) else [*errors, invalid_value("values", values, "must be ordered")]
    )


def _success_policy(policy: Obj, spec: Obj) -> Errors:
    rules, completions = objects(policy.get("rules")), spec.get("completions") or 0
    errors: list[FieldError] = []
    if not rules:
        detail = "at least one rules must be specified when the successPolicy is specified"
        errors.append(required("rules", detail))
    if len(rules) > 20:
        errors.append(too_many("rules", len(rules), 20))
    return [*errors, *at("rules", each(lambda rule: _success_rule(rule, completions))(rules))]


def _success_rule(rule: Obj, completions: int) -> Errors:
    count, indexes = rule.get("succeededCount"), rule.get("succeededIndexes")
    errors: list[FieldError] = []
    if count is None and indexes is None:
        errors.append(required("", "at least one of succeededCount or succeededIndexes must be specified"))
    total = 0
    if indexes is not None:
        if len(indexes) > 64 * 1024:
            errors.append(too_long("succeededIndexes", 64 * 1024))
        error, total = _indexes(indexes, completions)
        if error:
            errors.append(
                invalid_value("succeededIndexes", indexes, f"error parsing succeededIndexes: {error}")
            )
    if count is None:
        return errors
    errors += at("succeededCount", not_negative(count))
    limits = {completions: "the number of specified completions"}
    if indexes is not None:
        limits |= {total: "the number of indexes in the specified succeededIndexes field"}
    for limit, name in limits.items():
        if count > limit:
            error = f"must be less than or equal to {limit} ({name})"
            errors.append(invalid_value("succeededCount", count, error))
    return errors


def _indexes(written: str, completions: int) -> tuple[str, int]:
    """The error of a list of indexes (`1,3-5`), and the number of indexes in it."""
    total, last = 0, -1
    for span in written.split(",") if written else ():
        ends = span.split("-")
        if len(ends) > 2:
            detail = (
                "violates the requirement that an index interval can have at most two parts separated by '-'"
            )
            return f'the fragment "{span}" {detail}', 0
        for end in ends:
            if not (end.removeprefix("+").isascii() and end.removeprefix("+").isdecimal()):
                return f'cannot convert string to integer for index: "{end}"', 0
            if int(end) >= completions:
                return f'too large index: "{end}"', 0
        first, final = int(ends[0]), int(ends[-1])
        if (len(ends) == 2 and first >= final) or last >= first:
            return f"non-increasing order, previous: {max(last, first)}, current: {first}", 0
        total, last = total + final - first + 1, final
    return "", total


def cron_job(obj: Obj) -> Errors:
    """A CronJob."""
    return at("spec", _CRON_JOB(part(obj, "spec")))


def cron_job_name(obj: Obj) -> Errors:
    """The name of a CronJob: names of its jobs are eleven characters longer."""
    name = obj["metadata"].get("name") or ""
    return (
        [invalid_value("metadata.name", name, "must be no more than 52 characters")]
        if len(name) > 52
        else NONE
    )


def _schedule(value: Any) -> Errors:
    if not value:
        return [required("")]
    why = schedule_error(value)
    errors: list[FieldError] = [invalid_value("", value, why)] if why is not None else []
    if "TZ" in value:
        detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        errors.append(invalid_value("", value, detail))
    return errors


def _zone(value: str) -> Errors:
    why = zone_error(value)
    return [invalid_value("", value, why)] if why is not None else NONE


def _job_template(value: Any) -> Errors:
    spec = part(part_of(value), "spec")
    errors = at("spec", job_spec(spec))
    if (wanted := spec.get("selector")) is not None:
        errors.append(invalid_value("spec.selector", wanted, "`selector` will be auto-generated"))
    if spec.get("manualSelector"):
        errors.append(unsupported("spec.manualSelector", True, ("nil", "false")))
    return errors


_CRON_JOB = record(
    ("schedule", always(_schedule)),
    ("startingDeadlineSeconds", not_negative),
    ("timeZone", _zone),
    ("concurrencyPolicy", always(one_of("Allow", "Forbid", "Replace", needs=True))),
    ("jobTemplate", always(_job_template)),
    ("successfulJobsHistoryLimit", not_negative),
    ("failedJobsHistoryLimit", not_negative),
)


def disruption_budget(obj: Obj) -> Errors:
    """A PodDisruptionBudget."""
    return at("spec", _BUDGET(part(obj, "spec")))


def _one_bound(spec: Obj) -> Errors:
    both = spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None
    return [invalid_value("", spec, "minAvailable and maxUnavailable cannot be both set")] if both else NONE


def _bound(value: Any) -> Errors:
    return [*share(value), *at_most_all(value)]


_BUDGET = record(
    _one_bound,
    ("minAvailable", _bound),
    ("maxUnavailable", _bound),
    ("selector", selector),
    ("unhealthyPodEvictionPolicy", one_of("AlwaysAllow", "IfHealthyBudget")),
)
