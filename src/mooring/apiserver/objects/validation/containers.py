"""Containers of every sort: ports, environment, mounts, probes, hooks, resources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mooring.apiserver.errors import (
    FieldError,
    Obj,
    duplicate,
    forbidden_field,
    invalid_value,
    not_among,
    required,
    unsupported,
)
from mooring.apiserver.objects.validation.checks import (
    NONE,
    Check,
    Errors,
    always,
    at,
    descending,
    each,
    entries,
    exclusive,
    least,
    needed,
    no_steps_back,
    not_negative,
    objects,
    one_of,
    part,
    port,
    port_or_name,
    record,
    text,
    too_many,
)  # fmt: skip
from mooring.apiserver.objects.validation.formats import (
    header_error,
    label_error,
    port_name_error,
    subdomain_error,
    variable_error,
)  # fmt: skip
from mooring.apiserver.objects.validation.references import variable_source
from mooring.apiserver.objects.validation.resources import container_resource_name, requirements
from mooring.apiserver.objects.validation.security import container_context

PROTOCOLS = ("SCTP", "TCP", "UDP")
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_RESTARTS = ("Always", "Never", "OnFailure")
_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
_CLAIMS = ("persistentVolumeClaim", "ephemeral")


@dataclass(frozen=True, slots=True)
class Around:
    """The facts of the pod that a container's rules need: the volumes by name, claims, and fields of the
    spec."""

    spec: Obj
    volumes: Mapping[str, Obj]
    claims: frozenset[str] = field(default_factory=frozenset[str])

    @property
    def grace_seconds(self) -> int | None:
        return self.spec.get("terminationGracePeriodSeconds")

    @property
    def host_users(self) -> bool:
        return self.spec.get("hostUsers") is not False


def _ports(value: Any) -> Errors:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, entry in enumerate(objects(value)):
        name = entry.get("name") or ""
        wrong: list[FieldError] = []
        if name and (why := port_name_error(name)) is not None:
            wrong.append(invalid_value("name", name, why))
        elif name in seen:
            wrong.append(duplicate("name", name))
        elif name:
            seen.add(name)
        number = entry.get("containerPort")
        wrong += at("containerPort", port(number)) if number else [required("containerPort")]
        if host := entry.get("hostPort"):
            wrong += at("hostPort", port(host))
        wrong += at("protocol", one_of(*PROTOCOLS, needs=True)(entry.get("protocol")))
        errors += at(f"[{index}]", wrong)
    return errors


def _variable(variable: Obj) -> Errors:
    errors = list(_VARIABLE(variable))
    return [*errors, *at("valueFrom", variable_source(variable))]


_VARIABLE = record(("name", needed(text(variable_error))))
_SOURCE = record(("name", needed(text(subdomain_error))))
_SOURCES = ("configMapRef", "secretRef")


def _variables_from(value: Any) -> Errors:
    errors: list[FieldError] = []
    for index, entry in enumerate(objects(value)):
        given = [name for name in _SOURCES if entry.get(name) is not None]
        wrong = at("prefix", text(variable_error)(entry.get("prefix")))
        wrong += [error for name in given for error in at(name, _SOURCE(entry[name]))]
        errors += at(f"[{index}]", wrong)
        if len(given) != 1:
            # As upstream: about the list, not the entry.
            none, more = (
                "must specify one of: `configMapRef` or `secretRef`",
                "may not have more than one field specified",
            )
            errors.append(invalid_value("", "", f"{more} at a time" if given else none))
    return errors


def _mounts(container: Obj, around: Around) -> Errors:
    """Mounts. As upstream, some errors are reported at the list rather than the entry."""
    devices = {each.get("name"): each.get("devicePath") for each in objects(container.get("volumeDevices"))}
    errors: list[FieldError] = []
    paths: set[str] = set()
    for index, mount in enumerate(objects(container.get("volumeMounts"))):
        name, path = mount.get("name") or "", mount.get("mountPath") or ""
        wrong: list[FieldError] = [] if name else [required("name")]
        if name not in around.volumes:
            wrong.append(not_among("name", name))
        if not path:
            wrong.append(required("mountPath"))
        if path in paths:
            wrong.append(invalid_value("mountPath", path, "must be unique"))
        paths.add(path)
        if name in devices:
            wrong.append(invalid_value("name", name, "must not already exist in volumeDevices"))
        if path in devices.values():
            wrong.append(
                invalid_value("mountPath", path, "must not already exist as a path in volumeDevices")
            )
        if wrong:
            errors += at(f"[{index}]", wrong)
        errors += _mount_details(mount, index, container)
    return errors


def _mount_details(mount: Obj, index: int, container: Obj) -> list[FieldError]:
    sub_path, expression = mount.get("subPath") or "", mount.get("subPathExpr") or ""
    errors = at("subPath", descending(sub_path)) if sub_path else []
    if expression:
        if sub_path:
            detail = "subPathExpr and subPath are mutually exclusive"
            errors.append(invalid_value(f"[{index}].subPathExpr", expression, detail))
        errors += at("subPathExpr", descending(expression))
    propagation = mount.get("mountPropagation")
    if propagation is not None:
        errors += at("mountPropagation", one_of(*_PROPAGATIONS)(propagation))
        if propagation == "Bidirectional" and not part(container, "securityContext").get("privileged"):
            detail = "Bidirectional mount propagation is available only to privileged containers"
            errors.append(forbidden_field("mountPropagation", detail))
    return [*errors, *at("recursiveReadOnly", _recursive(mount))]


def _recursive(mount: Obj) -> Errors:
    wanted = mount.get("recursiveReadOnly")
    if wanted in (None, "Disabled"):
        return NONE
    if wanted not in ("Enabled", "IfPossible"):
        return [unsupported("", wanted, ("Disabled", "Enabled", "IfPossible"))]
    errors: list[FieldError] = []
    if not mount.get("readOnly"):
        errors.append(forbidden_field("", "may only be specified when readOnly is true"))
    if mount.get("mountPropagation") not in (None, "None"):
        errors.append(
            forbidden_field("", "may only be specified when mountPropagation is None or not specified")
        )
    return errors


def _devices(container: Obj, around: Around) -> Errors:
    mounts = {each.get("name"): each.get("mountPath") for each in objects(container.get("volumeMounts"))}
    errors: list[FieldError] = []
    names: set[str] = set()
    paths: set[str] = set()
    for index, device in enumerate(objects(container.get("volumeDevices"))):
        name, path = device.get("name") or "", device.get("devicePath") or ""
        wrong = _device_name(name, names, around)
        if not path:
            wrong.append(required("devicePath"))
        if path in paths:
            wrong.append(invalid_value("devicePath", path, "must be unique"))
        if no_steps_back(path):
            wrong.append(invalid_value("devicePath", path, "can not contain backsteps ('..')"))
        else:
            paths.add(path)
        if name in mounts:
            wrong.append(invalid_value("name", name, "must not already exist in volumeMounts"))
        if path in mounts.values():
            wrong.append(
                invalid_value("devicePath", path, "must not already exist as a path in volumeMounts")
            )
        if name:
            names.add(name)
        errors += at(f"[{index}]", wrong)
    return errors


def _device_name(name: str, seen: set[str], around: Around) -> list[FieldError]:
    volume = around.volumes.get(name)
    errors: list[FieldError] = [] if name else [required("name")]
    if name in seen:
        errors.append(invalid_value("name", name, "must be unique"))
    if volume is None:
        errors.append(not_among("name", name))
    elif all(volume.get(source) is None for source in _CLAIMS):
        detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
        errors.append(invalid_value("name", name, detail))
    return errors


def _header(header: Obj) -> Errors:
    name = header.get("name") or ""
    why = header_error(name)
    return [invalid_value("", name, why)] if why is not None else NONE


def _http_get(action: Obj) -> Errors:
    errors = list(_HTTP_GET(action))
    return [
        *errors,
        *(error for each in objects(action.get("httpHeaders")) for error in at("httpHeaders", _header(each))),
    ]


_HTTP_GET = record(
    ("path", needed()), ("port", always(port_or_name)), ("scheme", always(one_of("HTTP", "HTTPS")))
)
_ACTIONS: Mapping[str, Check] = {
    "exec": record(("command", needed())),
    "httpGet": _http_get,
    "tcpSocket": record(("port", always(port_or_name))),
}
_MORE = "may not specify more than 1 handler type"


def _no_handler() -> FieldError:
    return required("", "must specify a handler type")


_probe_handler = exclusive({**_ACTIONS, "grpc": record(("port", always(port)))}, none=_no_handler, more=_MORE)


def _sleep(action: Obj) -> Errors:
    return NONE


_hook = exclusive({**_ACTIONS, "sleep": _sleep}, none=_no_handler, more=_MORE)


def _hook_handler(handler: Obj, grace_seconds: int | None) -> Errors:
    errors = list(_hook(handler))
    seconds = part(handler, "sleep").get("seconds", 0)
    first = next((name for name in (*_ACTIONS, "sleep") if handler.get(name) is not None), "")
    if first == "sleep" and grace_seconds is not None and not 0 <= seconds <= grace_seconds:
        detail = f"must be non-negative and less than terminationGracePeriodSeconds ({grace_seconds})"
        errors.append(invalid_value("sleep", seconds, detail))
    return errors


_PROBE = record(
    _probe_handler,
    *((name, not_negative) for name in
      ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")),
    ("terminationGracePeriodSeconds", least(1, "must be greater than 0")),
)  # fmt: skip


def _one_success(probe: Obj) -> Errors:
    """A liveness or startup probe: one success is enough, and the threshold must be 1."""
    times = probe.get("successThreshold") or 0
    return [*_PROBE(probe), *([] if times == 1 else [invalid_value("successThreshold", times, "must be 1")])]


def _readiness(probe: Obj) -> Errors:
    seconds = probe.get("terminationGracePeriodSeconds")
    detail = "must not be set for readinessProbes"
    return [
        *_PROBE(probe),
        *([] if seconds is None else [invalid_value("terminationGracePeriodSeconds", seconds, detail)]),
    ]


_PROBES = record(
    ("livenessProbe", _one_success), ("readinessProbe", _readiness), ("startupProbe", _one_success)
)


def _lifecycle(lifecycle: Obj, around: Around) -> Errors:
    errors: list[FieldError] = []
    for name in ("postStart", "preStop"):
        if (handler := lifecycle.get(name)) is not None:
            errors += at(name, _hook_handler(handler, around.grace_seconds))
    return errors


def lively(container: Obj, around: Around) -> Errors:
    """Hooks and probes."""
    lifecycle = container.get("lifecycle")
    hooks = at("lifecycle", _lifecycle(lifecycle, around)) if lifecycle is not None else []
    return [*hooks, *_PROBES(container)]


def _resize(policies: Any, restart_policy: Any) -> Errors:
    """How a change of resources is made. As upstream, most errors are reported at the list."""
    errors: list[FieldError] = []
    seen: set[Any] = set()
    for index, policy in enumerate(objects(policies)):
        name, restart = policy.get("resourceName") or "", policy.get("restartPolicy") or ""
        if name in seen:
            errors.append(duplicate(f"[{index}]", name))
        seen.add(name)
        errors += one_of("cpu", "memory", needs=True)(name)
        errors += one_of("NotRequired", "RestartContainer", needs=True)(restart)
        if restart_policy == "Never" and restart != "NotRequired":
            detail = "must be 'NotRequired' when pod `restartPolicy` is 'Never'"
            errors.append(invalid_value("", restart, detail))
    return errors


def common(container: Obj, around: Around) -> Errors:
    """The rules of every container, whenever it runs."""
    errors = list(_HEAD(container))
    if container.get("volumeMounts"):
        errors += at("volumeMounts", _mounts(container, around))
    if container.get("volumeDevices"):
        errors += at("volumeDevices", _devices(container, around))
    errors += _PULL(container)
    if resources := container.get("resources"):
        errors += at("resources", requirements(resources, container_resource_name, around.claims))
    if policies := container.get("resizePolicy"):
        errors += at("resizePolicy", _resize(policies, around.spec.get("restartPolicy")))
    if (context := container.get("securityContext")) is not None:
        errors += at("securityContext", container_context(context, host_users=around.host_users))
    return errors


_HEAD = record(
    ("name", needed(text(label_error))),
    ("image", needed()),
    ("terminationMessagePolicy", always(one_of("File", "FallbackToLogsOnError", needs=True))),
    ("ports", _ports),
    ("env", each(_variable)),
    ("envFrom", _variables_from),
)
_PULL = record(("imagePullPolicy", always(one_of(*_PULL_POLICIES, needs=True))))


def restarts(container: Obj) -> Errors:
    """A container's own restart policy and its rules (KEP-5307)."""
    policy, rules = container.get("restartPolicy"), objects(container.get("restartPolicyRules"))
    if policy is None:
        detail = "must specify restartPolicy when restart rules are used"
        errors: list[FieldError] = [required("restartPolicy", detail)] if rules else []
    else:
        errors = at("restartPolicy", one_of(*_RESTARTS)(policy))
    if len(rules) > 20:
        errors.append(too_many("restartPolicyRules", len(rules), 20))
    return [*errors, *at("restartPolicyRules", each(_restart_rule)(rules))]


def _restart_rule(rule: Obj) -> Errors:
    errors = at("action", one_of("Restart", "RestartAllContainers")(rule.get("action")))
    codes = rule.get("exitCodes")
    if codes is None:
        return [*errors, required("exitCodes", "must be specified")]
    errors += at("exitCodes.operator", one_of("In", "NotIn")(codes.get("operator")))
    values = entries(codes, "values")
    return [*errors, too_many("exitCodes.values", len(values), 255)] if len(values) > 255 else errors


def host_ports(containers: list[Obj]) -> Errors:
    """Ports of the host that two containers would take."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, container in enumerate(containers):
        for place, entry in enumerate(objects(container.get("ports"))):
            if not entry.get("hostPort"):
                continue
            name = f"{entry.get('protocol') or ''}/{entry.get('hostIP') or ''}/{entry['hostPort']}"
            if name in seen:
                errors.append(duplicate(f"[{index}].ports[{place}].hostPort", name))
            seen.add(name)
    return errors


def containers(entries: list[Obj], around: Around) -> Errors:
    """The containers of a pod: one at least."""
    if not entries:
        return [required("")]
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, container in enumerate(entries):
        wrong = list(common(container, around))
        name = container.get("name") or ""
        if name in seen:
            wrong.append(duplicate("name", name))
        seen.add(name)
        wrong += [*lively(container, around), *_restarts_of(container)]
        if wrong:
            errors += at(f"[{index}]", wrong)
    return [*errors, *host_ports(entries)]


def _restarts_of(container: Obj) -> Errors:
    if container.get("restartPolicy") is None and not container.get("restartPolicyRules"):
        return NONE
    return restarts(container)


def init_containers(entries: list[Obj], others: list[Obj], around: Around) -> Errors:
    """The init containers of a pod; those that always restart are sidecars, and may be probed."""
    errors: list[FieldError] = []
    seen = {other.get("name") for other in others}
    for index, container in enumerate(entries):
        wrong = [*common(container, around), *_restarts_of(container)]
        name = container.get("name") or ""
        if name in seen:
            wrong.append(duplicate("name", name))
        seen |= {name} - {""}
        errors += at(f"[{index}]", wrong)
        errors += host_ports([container])
        if container.get("restartPolicy") == "Always":
            errors += at(f"[{index}]", lively(container, around))
        else:
            errors += at(f"[{index}]", _not_lively(container))
    return errors


def _not_lively(container: Obj) -> Errors:
    detail = "may not be set for init containers without restartPolicy=Always"
    fields = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
    errors: list[FieldError] = [
        forbidden_field(name, detail) for name in fields if container.get(name) is not None
    ]
    for index, policy in enumerate(objects(container.get("resizePolicy"))):
        if policy.get("restartPolicy") == "RestartContainer":
            detail = "must not be set to 'RestartContainer' for non-sidecar initContainers"
            errors.append(invalid_value(f"resizePolicy[{index}].restartPolicy", "RestartContainer", detail))
    return errors


_EPHEMERAL_LACKS = ("ports", "resources", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle",
                    "resizePolicy", "restartPolicy", "restartPolicyRules")  # fmt: skip


def ephemeral_containers(entries: list[Obj], others: list[Obj], around: Around) -> Errors:
    """Containers that were put into a running pod: no ports, resources, probes or hooks."""
    errors: list[FieldError] = []
    running = {other.get("name") for other in others}
    seen = set(running)
    detail = "cannot be set for an Ephemeral Container"
    for index, container in enumerate(entries):
        wrong = [*common(container, around), *trimmed_image(container)]
        name, target = container.get("name"), container.get("targetContainerName")
        if name in seen:
            wrong.append(duplicate("name", name))
        seen.add(name)
        if target and target not in running:
            wrong.append(not_among("targetContainerName", target))
        wrong += [forbidden_field(field, detail) for field in _EPHEMERAL_LACKS if container.get(field)]
        for place, mount in enumerate(objects(container.get("volumeMounts"))):
            paths = [field for field in ("subPath", "subPathExpr") if mount.get(field)]
            wrong += [forbidden_field(f"volumeMounts[{place}].{field}", detail) for field in paths]
        errors += at(f"[{index}]", wrong)
    return errors


def trimmed_image(container: Obj) -> Errors:
    """An image without white space around its name."""
    image = container.get("image") or ""
    detail = "must not have leading or trailing whitespace"
    return [invalid_value("image", image, detail)] if image != image.strip() else NONE
