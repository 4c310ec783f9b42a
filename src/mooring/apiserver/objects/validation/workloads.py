"""Workloads: what makes pods from a template."""

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


def share(value: Any) -> Errors:
    """A number, not negative, or a share of one (`25%`)."""
    if isinstance(value, str):
        why = percent_error(value)
        return [invalid_value("", value, why)] if why is not None else NONE
    return not_negative(value)


def at_most_all(value: Any) -> Errors:
    """A share that is not above the whole."""
    above = isinstance(value, str) and percent_error(value) is None and int(value[:-1]) > 100
    return [invalid_value("", value, "must not be greater than 100%")] if above else NONE


def _number(value: Any) -> int:
    """What a share comes to, as far as it matters whether it is nothing."""
    if isinstance(value, str):
        return int(value[:-1]) if percent_error(value) is None else _digits(value)
    return int(value or 0)


def _digits(value: str) -> int:
    return int(value) if value.removeprefix("-").isascii() and value.removeprefix("-").isdecimal() else 0


def _selected_template(spec: Obj, kind: str, *, body: Check) -> list[FieldError]:
    """A template whose labels are selected, and whose pods always restart and run without a deadline."""
    found: list[FieldError] = []
    wanted, made = spec.get("selector"), part(spec, "template")
    if not (wanted is not None and is_empty(wanted)) and not selects(wanted, _labels(made)):
        found.append(invalid_value("metadata.labels", _labels(made) or None, _MISMATCH))
    found += body(made)
    return at("template", [*found, *_lasting(made, kind)])


def _labels(made: Obj) -> Mapping[str, str]:
    return part(part(made, "metadata"), "labels")


def _lasting(made: Obj, kind: str) -> list[FieldError]:
    spec = part(made, "spec")
    found: list[FieldError] = []
    if (policy := spec.get("restartPolicy")) != "Always":
        found.append(unsupported("spec.restartPolicy", policy or "", ("Always",)))
    if spec.get("activeDeadlineSeconds") is not None:
        told = f"activeDeadlineSeconds in {kind} is not Supported"
        found.append(forbidden_field("spec.activeDeadlineSeconds", told))
    return found


def _selecting(spec: Obj, kind: str, *, body: Check = template, owner: str = "") -> list[FieldError]:
    """A selector that asks for something, and the template that it selects."""
    wanted = spec.get("selector")
    found: list[FieldError] = []
    if wanted is None:
        found.append(required("selector"))
    else:
        found += at("selector", selector(wanted))
        if is_empty(wanted):
            found.append(
                invalid_value("selector", wanted, f"empty selector is invalid for {owner or 'deployment'}")
            )
    if wanted is not None and not is_readable(wanted):
        return [*found, invalid_value("selector", wanted, "invalid label selector")]
    return [*found, *_selected_template(spec, kind, body=body)]


def replica_set(obj: Obj) -> Errors:
    """A ReplicaSet."""
    spec = part(obj, "spec")
    return at("spec", [*_SCALED(spec), *_selecting(spec, "ReplicaSet")])


_SCALED = record(("replicas", not_negative), ("minReadySeconds", not_negative))


def deployment(obj: Obj) -> Errors:
    """A Deployment."""
    spec = part(obj, "spec")
    found = at("replicas", not_negative(spec.get("replicas")))
    found += [*_selecting(spec, "ReplicaSet"), *_DEPLOYMENT(spec)]
    deadline, ready = spec.get("progressDeadlineSeconds"), spec.get("minReadySeconds") or 0
    if deadline is not None and deadline <= ready:
        found.append(
            invalid_value("progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")
        )
    return at("spec", found)


def _deployment_strategy(strategy: Obj) -> Errors:
    kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
    if kind == "Recreate":
        told = "may not be specified when strategy `type` is 'Recreate'"
        return [forbidden_field("rollingUpdate", told)] if rolling is not None else NONE
    if kind != "RollingUpdate":
        return [unsupported("", strategy, ("Recreate", "RollingUpdate"))]
    if rolling is None:
        return [required("rollingUpdate", "this should be defaulted and never be nil")]
    found = list(_SHARES(rolling))
    missing = rolling.get("maxUnavailable")
    if not _number(missing) and not _number(rolling.get("maxSurge")):
        found.append(invalid_value("maxUnavailable", missing, "may not be 0 when `maxSurge` is 0"))
    return at("rollingUpdate", [*found, *at("maxUnavailable", at_most_all(missing))])


_SHARES = record(("maxUnavailable", share), ("maxSurge", share))
_DEPLOYMENT = record(
    ("strategy", _deployment_strategy), ("minReadySeconds", not_negative), ("revisionHistoryLimit", not_negative),
    ("progressDeadlineSeconds", not_negative),
)  # fmt: skip


def daemon_set(obj: Obj) -> Errors:
    """A DaemonSet."""
    spec = part(obj, "spec")
    wanted, made = spec.get("selector"), part(spec, "template")
    found = at("selector", selector(wanted or {}))
    if (wanted is None or is_readable(wanted)) and not selects(wanted, _labels(made)):
        found.append(invalid_value("template.metadata.labels", _labels(made) or None, _MISMATCH))
    if wanted is not None and is_empty(wanted):
        found.append(invalid_value("selector", wanted, "empty selector is invalid for daemonset"))
    found += at("template", [*template(made), *_lasting(made, "DaemonSet")])
    return at("spec", [*found, *_DAEMON_SET(spec)])


def _daemon_strategy(strategy: Obj) -> Errors:
    kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
    if kind == "OnDelete":
        return NONE
    if kind != "RollingUpdate":
        return [unsupported("", strategy, _ROLLING)]
    if rolling is None:
        return [required("rollingUpdate")]
    missing, surge = rolling.get("maxUnavailable"), rolling.get("maxSurge")
    found = [
        *_SHARES(rolling),
        *at("maxUnavailable", at_most_all(missing)),
        *at("maxSurge", at_most_all(surge)),
    ]
    if _number(missing) and _number(surge):
        found.append(invalid_value("maxSurge", surge, "may not be set when maxUnavailable is non-zero"))
    if not _number(missing) and not _number(surge):
        found.append(required("maxUnavailable", "cannot be 0 when maxSurge is 0"))
    return at("rollingUpdate", found)


_DAEMON_SET = record(
    ("minReadySeconds", not_negative),
    ("updateStrategy", _daemon_strategy),
    ("revisionHistoryLimit", not_negative),
)


def replication_controller(obj: Obj) -> Errors:
    """A ReplicationController: its selector is a plain map."""
    spec = part(obj, "spec")
    wanted: Mapping[str, str] = part(spec, "selector")
    found = at("minReadySeconds", not_negative(spec.get("minReadySeconds")))
    if not wanted:
        found.append(required("selector"))
    found += at("replicas", not_negative(spec.get("replicas")))
    made = spec.get("template")
    if made is None:
        return at("spec", [*found, required("template")])
    wrong: list[FieldError] = []
    if not selects({"matchLabels": wanted}, _labels(made)):
        wrong.append(invalid_value("metadata.labels", _labels(made) or None, _MISMATCH))
    return at(
        "spec", [*found, *at("template", [*wrong, *template(made), *_lasting(made, "ReplicationController")])]
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
    found = at("partition", not_negative(rolling.get("partition")))
    missing = rolling.get("maxUnavailable")
    if missing is not None:
        found += at("maxUnavailable", share(missing))
        if not _number(missing):
            found.append(invalid_value("maxUnavailable", missing, "cannot be 0"))
        found += at("maxUnavailable", at_most_all(missing))
    return at("rollingUpdate", found)


_retention = one_of("Retain", "Delete")


def _claim_template(value: Obj) -> Errors:
    return at("spec", claim_spec(part(value, "spec")))


def stateful_set(obj: Obj, *, new: bool = True) -> Errors:
    """A StatefulSet; of one that is not new, what cannot change is not looked at."""
    spec = part(obj, "spec")
    policy = spec.get("podManagementPolicy") or ""
    found: list[FieldError] = [] if policy else [required("podManagementPolicy")]
    if policy and policy not in ("OrderedReady", "Parallel"):
        found.append(invalid_value("podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'"))
    found += _STATEFUL(spec)
    claims = objects(spec.get("volumeClaimTemplates"))
    if new:
        found += at("volumeClaimTemplates", each(_claim_template)(claims))
    found += [*_SCALED(spec), *at("ordinals", _ORDINALS(part(spec, "ordinals")))]
    if new:
        found += at("serviceName", text(label_error)(spec.get("serviceName")))
    names = [part(claim, "metadata").get("name") or "" for claim in claims]

    def body(made: Obj) -> Errors:
        return template(made, names, ignored=("hostname", "subdomain"))

    return at("spec", [*found, *_selecting(spec, "StatefulSet", body=body, owner="statefulset")])


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
    found = [*_generated(obj), *at("spec", job_spec(spec))]
    wanted, made = spec.get("selector"), part(spec, "template")
    found += [required("spec.selector")] if wanted is None else at("spec.selector", selector(wanted))
    if (wanted is None or is_readable(wanted)) and not selects(wanted, _labels(made)):
        found.append(invalid_value("spec.template.metadata.labels", _labels(made) or None, _MISMATCH))
    if spec.get("completionMode") == "Indexed" and (spec.get("completions") or 0) > 0:
        last = f"{metadata.get('name')}-{spec['completions'] - 1}"
        if label_error(last) is not None:
            told = f"will not able to create pod with invalid DNS label: {last}"
            found.append(invalid_value("metadata.name", metadata.get("name"), told))
    return found


def _generated(obj: Obj) -> list[FieldError]:
    """The labels and the selector that a job gets unless it says `manualSelector`."""
    metadata, spec = obj["metadata"], part(obj, "spec")
    if spec.get("manualSelector") or spec.get("selector") is None:
        return []
    uid, name, own = metadata.get("uid") or "", metadata.get("name") or "", _labels(part(spec, "template"))
    expected = {"controller-uid": uid, "job-name": name}
    expected |= {f"batch.kubernetes.io/{key}": value for key, value in expected.items()}
    found: list[FieldError] = []
    for key, value in expected.items():
        path, told = f"spec.template.metadata.labels[{key}]", f"must be '{value}'"
        if key not in own:
            found.append(required(path, told))
        elif own[key] != value:
            found.append(invalid_value(path, own, told))
    if is_readable(spec["selector"]) and not selects(spec["selector"], expected):
        found.append(invalid_value("spec.selector", spec["selector"], "`selector` not auto-generated"))
    return found


_COUNTS = ("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished",
           "backoffLimitPerIndex", "maxFailedIndexes")  # fmt: skip
_JOB_COUNTS = record(*((name, not_negative) for name in _COUNTS))
_HIGH, _HIGH_LIMIT, _MOST_INDEXES = 100_000, 10_000, 100_000
_MODES = ("NonIndexed", "Indexed")


def job_spec(spec: Obj) -> Errors:
    """The spec of a job, or of the template of one."""
    found = list(_JOB_COUNTS(spec))
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        found.append(required("backoffLimitPerIndex", "when maxFailedIndexes is specified"))
    if (manager := spec.get("managedBy")) is not None:
        found += at("managedBy", _manager(manager))
    mode = spec.get("completionMode")
    if mode not in (None, *_MODES):
        found.append(unsupported("completionMode", mode, _MODES))
    if mode == "Indexed":
        found += _indexed(spec)
    elif mode in (None, "NonIndexed"):
        fields = [
            field for field in ("backoffLimitPerIndex", "maxFailedIndexes") if spec.get(field) is not None
        ]
        found += [invalid_value(field, spec[field], "requires indexed completion mode") for field in fields]
    if (policy := spec.get("podFailurePolicy")) is not None:
        found += at("podFailurePolicy", _failure_policy(policy, spec))
    if (policy := spec.get("successPolicy")) is not None:
        told = "requires indexed completion mode"
        found += at(
            "successPolicy",
            _success_policy(policy, spec) if mode == "Indexed" else [invalid_value("", policy, told)],
        )
    found += at("podReplacementPolicy", _replacement(spec))
    made = part(spec, "template")
    return [*found, *at("template", template(made)), *_job_restart(spec, made)]


def _manager(value: str) -> Errors:
    if not value:
        return [required("")]
    why = domain_path_error(value)
    found: list[FieldError] = [invalid_value("", value, why)] if why is not None else []
    return [*found, too_long("", 63)] if len(value) > 63 else found


def _indexed(spec: Obj) -> list[FieldError]:
    completions, parallelism, failed = (
        spec.get(name) for name in ("completions", "parallelism", "maxFailedIndexes")
    )
    found: list[FieldError] = []
    if completions is None:
        found.append(required("completions", "when completion mode is Indexed"))
    if parallelism is not None and parallelism > _MOST_INDEXES:
        told = f"must be less than or equal to {_MOST_INDEXES} when completion mode is Indexed"
        found.append(invalid_value("parallelism", parallelism, told))
    if completions is not None and failed is not None and failed > completions:
        found.append(invalid_value("maxFailedIndexes", failed, "must be less than or equal to completions"))
    if failed is not None and failed > _MOST_INDEXES:
        found.append(
            invalid_value("maxFailedIndexes", failed, f"must be less than or equal to {_MOST_INDEXES}")
        )
    if (completions or 0) <= _HIGH or spec.get("backoffLimitPerIndex") is None:
        return found
    told = (
        f"must be less than or equal to {_HIGH_LIMIT} when completions are above {_HIGH} and used with backoff limit "
        "per index"
    )
    if failed is None:
        found.append(required("maxFailedIndexes", f"must be specified when completions is above {_HIGH}"))
    for name, value in (("parallelism", parallelism), ("maxFailedIndexes", failed)):
        if value is not None and value > _HIGH_LIMIT:
            found.append(invalid_value(name, value, told))
    return found


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
    found: list[FieldError] = [too_many("rules", len(rules), 20)] if len(rules) > 20 else []
    names = {
        each.get("name") for group in ("containers", "initContainers") for each in objects(pod.get(group))
    }
    for index, rule in enumerate(rules):
        found += at(f"rules[{index}]", _failure_rule(rule, spec, names))
    return found


def _failure_rule(rule: Obj, spec: Obj, names: set[Any]) -> Errors:
    action, codes, conditions = (
        rule.get("action") or "",
        rule.get("onExitCodes"),
        objects(rule.get("onPodConditions")),
    )
    found: list[FieldError] = []
    if not action:
        found.append(required("action", f"valid values: {_quoted(_ACTIONS)}"))
    elif action == "FailIndex":
        if spec.get("backoffLimitPerIndex") is None:
            found.append(invalid_value("action", action, "requires the backoffLimitPerIndex to be set"))
    elif action not in _ACTIONS:
        found.append(unsupported("action", action, _ACTIONS))
    if codes is not None:
        found += at("onExitCodes", _exit_codes(codes, names))
    if len(conditions) > 20:
        found.append(too_many("onPodConditions", len(conditions), 20))
    found += at("onPodConditions", each(_condition)(conditions))
    if codes is not None and conditions:
        found.append(_about(rule, "specifying both OnExitCodes and OnPodConditions is not supported"))
    if codes is None and not conditions:
        found.append(_about(rule, "specifying one of OnExitCodes and OnPodConditions is required"))
    return found


def _about(rule: Obj, told: str) -> FieldError:
    return FieldError("FieldValueInvalid", "", f"Invalid value: {told}")


def _quoted(words: Sequence[str]) -> str:
    return "[" + " ".join(f'"{word}"' for word in words) + "]"


def _condition(pattern: Obj) -> Errors:
    status, allowed = pattern.get("status") or "", ("False", "True", "Unknown")
    found = name_errors("type", pattern.get("type") or "")
    if not status:
        return [*found, required("status", f"valid values: {_quoted(allowed)}")]
    return [*found, *at("status", one_of(*allowed)(status))]


def _exit_codes(codes: Obj, names: set[Any]) -> Errors:
    operator, values, container = (
        codes.get("operator") or "",
        entries(codes, "values"),
        codes.get("containerName"),
    )
    found: list[FieldError] = []
    if not operator:
        found.append(required("operator", f"valid values: {_quoted(('In', 'NotIn'))}"))
    found += at("operator", one_of("In", "NotIn")(operator)) if operator else []
    if container is not None and container not in names:
        told = "must be one of the container or initContainer names in the pod template"
        found.append(invalid_value("containerName", container, told))
    if not values:
        found.append(invalid_value("values", values, "at least one value is required"))
    elif len(values) > 255:
        found.append(too_many("values", len(values), 255))
    first: dict[Any, int] = {}
    for index, code in enumerate(values):
        if operator == "In" and code == 0:
            found.append(invalid_value(f"values[{index}]", code, "must not be 0 for the In operator"))
        if first.setdefault(code, index) < index:
            found.append(duplicate(f"values[{index}]", code))
    return found if values == sorted(values) else [*found, invalid_value("values", values, "must be ordered")]


def _success_policy(policy: Obj, spec: Obj) -> Errors:
    rules, completions = objects(policy.get("rules")), spec.get("completions") or 0
    found: list[FieldError] = []
    if not rules:
        told = "at least one rules must be specified when the successPolicy is specified"
        found.append(required("rules", told))
    if len(rules) > 20:
        found.append(too_many("rules", len(rules), 20))
    return [*found, *at("rules", each(lambda rule: _success_rule(rule, completions))(rules))]


def _success_rule(rule: Obj, completions: int) -> Errors:
    count, indexes = rule.get("succeededCount"), rule.get("succeededIndexes")
    found: list[FieldError] = []
    if count is None and indexes is None:
        found.append(required("", "at least one of succeededCount or succeededIndexes must be specified"))
    total = 0
    if indexes is not None:
        if len(indexes) > 64 * 1024:
            found.append(too_long("succeededIndexes", 64 * 1024))
        told, total = _indexes(indexes, completions)
        if told:
            found.append(
                invalid_value("succeededIndexes", indexes, f"error parsing succeededIndexes: {told}")
            )
    if count is None:
        return found
    found += at("succeededCount", not_negative(count))
    limits = {completions: "the number of specified completions"}
    if indexes is not None:
        limits |= {total: "the number of indexes in the specified succeededIndexes field"}
    for limit, name in limits.items():
        if count > limit:
            told = f"must be less than or equal to {limit} ({name})"
            found.append(invalid_value("succeededCount", count, told))
    return found


def _indexes(written: str, completions: int) -> tuple[str, int]:
    """What is wrong with `1,3-5`, and how many indexes it names."""
    total, last = 0, -1
    for span in written.split(",") if written else ():
        ends = span.split("-")
        if len(ends) > 2:
            told = (
                "violates the requirement that an index interval can have at most two parts separated by '-'"
            )
            return f'the fragment "{span}" {told}', 0
        for end in ends:
            if not (end.removeprefix("+").isascii() and end.removeprefix("+").isdecimal()):
                return f'cannot convert string to integer for index: "{end}"', 0
            if int(end) >= completions:
                return f'too large index: "{end}"', 0
        first, final = int(ends[0]), int(ends[-1])
        if (len(ends) == 2 and first >= final) or last >= first:
            return f"non-increasing order, previous: {last if last >= first else first}, current: {first}", 0
        total, last = total + final - first + 1, final
    return "", total


def cron_job(obj: Obj) -> Errors:
    """A CronJob."""
    return at("spec", _CRON_JOB(part(obj, "spec")))


def cron_job_name(obj: Obj) -> Errors:
    """The jobs' names are longer by eleven characters."""
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
    found: list[FieldError] = [invalid_value("", value, why)] if why is not None else []
    if "TZ" in value:
        told = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        found.append(invalid_value("", value, told))
    return found


def _zone(value: str) -> Errors:
    why = zone_error(value)
    return [invalid_value("", value, why)] if why is not None else NONE


def _job_template(value: Any) -> Errors:
    spec = part(part_of(value), "spec")
    found = at("spec", job_spec(spec))
    if (wanted := spec.get("selector")) is not None:
        found.append(invalid_value("spec.selector", wanted, "`selector` will be auto-generated"))
    if spec.get("manualSelector"):
        found.append(unsupported("spec.manualSelector", True, ("nil", "false")))
    return found


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
