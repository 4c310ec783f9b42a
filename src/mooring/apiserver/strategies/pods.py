"""Pods, and the pod templates of workloads: defaults, validation, what may change, graceful deletion."""

from collections.abc import Collection, Mapping
from copy import deepcopy
from typing import Any, ClassVar

from mooring.apiserver.defaults import Rules, fill, under
from mooring.apiserver.dotted import list_at, object_at, objects_at, strings_at, text_at, value_at
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
from mooring.apiserver.strategy import Admission, Strategy, label_error


def _pull_policy(container: Obj) -> str:
    image = text_at(container, "image").rpartition("/")[2]
    pinned = "@" in image or (":" in image and not image.endswith(":latest"))
    return "IfNotPresent" if pinned else "Always"


_CONTAINER: Rules = {
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "imagePullPolicy": _pull_policy,
    "resources": {},
    "ports[].protocol": "TCP",
    "env[].valueFrom?.fieldRef?.apiVersion": "v1",
}

POD_SPEC: Rules = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
    "securityContext": {},
    **under("containers[]", _CONTAINER),
    **under("initContainers[]", _CONTAINER),
    "volumes[].configMap?.defaultMode": 420,
    "volumes[].secret?.defaultMode": 420,
    "volumes[].projected?.defaultMode": 420,
    "volumes[].downwardAPI?.defaultMode": 420,
    "volumes[].hostPath?.type": "",
    "volumes[].ephemeral?.volumeClaimTemplate?.spec?.volumeMode": "Filesystem",
}
"""The defaults of a pod's spec, relative to it; workloads use them for their templates."""

_RESTART_POLICIES = ("Always", "OnFailure", "Never")

_TOLERATIONS = tuple(
    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for key in ("not-ready", "unreachable")
)

_ADMITTED = ("priority", "preemptionPolicy", "nodeName", "serviceAccountName")
"""What the server or a binding has put into a spec, so that a replaced manifest need not say it."""

_UPDATE_FORBIDDEN = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def validate_pod_spec(spec: Obj, path: str, claim_templates: Collection[str] = ()) -> list[FieldError]:
    """What upstream requires of a pod's or a template's spec, as far as this system depends on it.

    A StatefulSet's pods also get volumes named like its `claim_templates`."""
    volumes, containers = objects_at(spec, "volumes"), objects_at(spec, "containers")
    known = {text_at(volume, "name") for volume in volumes} | set(claim_templates)
    found = _names(volumes, f"{path}.volumes") + _names(containers, f"{path}.containers")
    if not containers:
        found.append(required(f"{path}.containers"))
    if spec.get("restartPolicy") not in _RESTART_POLICIES:
        found.append(unsupported(f"{path}.restartPolicy", spec.get("restartPolicy"), _RESTART_POLICIES))
    for group in ("initContainers", "containers"):
        for index, container in enumerate(objects_at(spec, group)):
            found += _validate_container(container, f"{path}.{group}[{index}]", known)
    return found


def _names(entries: list[Obj], path: str) -> list[FieldError]:
    found: list[FieldError] = []
    seen: set[str] = set()
    for index, entry in enumerate(entries):
        name = text_at(entry, "name")
        if not name:
            found.append(required(f"{path}[{index}].name"))
        elif name in seen:
            found.append(duplicate(f"{path}[{index}].name", name))
        elif (why := label_error(name)) is not None:
            found.append(invalid_value(f"{path}[{index}].name", name, why))
        seen.add(name)
    return found


def _validate_container(container: Obj, path: str, volumes: set[str]) -> list[FieldError]:
    found = [] if text_at(container, "image") else [required(f"{path}.image")]
    for field, place in (("volumeMounts", "mountPath"), ("volumeDevices", "devicePath")):
        for index, use in enumerate(objects_at(container, field)):
            at = f"{path}.{field}[{index}]"
            if text_at(use, "name") not in volumes:
                found.append(not_among(f"{at}.name", text_at(use, "name")))
            if not text_at(use, place):
                found.append(required(f"{at}.{place}"))
    return found


class Pods(Strategy):
    """Pods proper."""

    defaults: ClassVar[Rules] = {**under("spec", POD_SPEC), "spec.enableServiceLinks": True}
    status_keeps = ("ownerReferences",)
    returns_deleted = True
    counts_generations = True

    def prepare_create(self, obj: Obj, admission: Admission) -> None:
        spec = object_at(obj, "spec")
        spec |= {"preemptionPolicy": "PreemptLowerPriority", "priority": 0} | spec
        obj["status"] = {"phase": "Pending", "qosClass": _qos_class(spec)}
        _add_tolerations(spec)

    def prepare_update(self, obj: Obj, old: Obj, admission: Admission) -> None:
        before, spec = object_at(old, "spec"), object_at(obj, "spec")
        spec |= {field: before[field] for field in _ADMITTED if field in before and field not in spec}
        _add_tolerations(spec)

    def validate(self, obj: Obj) -> list[FieldError]:
        return validate_pod_spec(object_at(obj, "spec"), "spec")

    def validate_update(self, obj: Obj, old: Obj) -> list[FieldError]:
        before, after = object_at(old, "spec"), object_at(obj, "spec")
        changed = _fixed_part(after, before) != _fixed_part(before, before)
        return [forbidden_field("spec", _UPDATE_FORBIDDEN)] if changed else []

    def fields(self, obj: Obj) -> Mapping[str, str]:
        named = ("spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName")
        states = ("status.phase", "status.podIP", "status.nominatedNodeName")
        fields = {path: text_at(obj, path) for path in (*named, *states)}
        return fields | {"spec.hostNetwork": "true" if value_at(obj, "spec.hostNetwork") else "false"}

    def grace_seconds(self, obj: Obj, asked: int | None) -> int | None:
        """Upstream's rule: an unscheduled or finished pod has nothing to stop, so it goes at once."""
        if not text_at(obj, "spec.nodeName") or text_at(obj, "status.phase") in ("Succeeded", "Failed"):
            return 0
        wanted = value_at(obj, "spec.terminationGracePeriodSeconds") if asked is None else asked
        return int(wanted) if wanted >= 0 else 1


def _fixed_part(spec: Obj, old: Obj) -> Obj:
    """What of a pod's spec may not change, with the rest taken from `old`."""
    fixed = deepcopy(spec)
    for group in ("containers", "initContainers"):
        for container, before in zip(objects_at(fixed, group), objects_at(old, group), strict=False):
            container["image"] = before.get("image")
    fixed["activeDeadlineSeconds"] = old.get("activeDeadlineSeconds")
    if all(toleration in list_at(fixed, "tolerations") for toleration in list_at(old, "tolerations")):
        fixed["tolerations"] = old.get("tolerations")
    if (value_at(old, "terminationGracePeriodSeconds") or 0) < 0:
        fixed["terminationGracePeriodSeconds"] = old["terminationGracePeriodSeconds"]
    gates = {gate.get("name") for gate in objects_at(old, "schedulingGates")}
    if all(gate.get("name") in gates for gate in objects_at(fixed, "schedulingGates")):
        fixed["schedulingGates"] = old.get("schedulingGates")
    return {key: value for key, value in fixed.items() if value not in (None, [])}


def _add_tolerations(spec: Obj) -> None:
    """Admission plugin DefaultTolerationSeconds: 300 s on an unready or unreachable node unless the pod says otherwise.
    Admission plugin DefaultTolerationSeconds: 300 s on an unready or unreachable node unless the pod says otherwise."""
    present = objects_at(spec, "tolerations")
    missing = [each for each in _TOLERATIONS if not any(_tolerates(own, each["key"]) for own in present)]
    spec["tolerations"] = [*present, *(dict(each) for each in missing)]


def _tolerates(toleration: Obj, key: Any) -> bool:
    return toleration.get("key") in (key, None, "") and toleration.get("effect") in ("NoExecute", None, "")


def _qos_class(spec: Obj) -> str:
    containers = objects_at(spec, "containers") + objects_at(spec, "initContainers")
    resources = [object_at(container, "resources") for container in containers]
    if not any(each.get("requests") or each.get("limits") for each in resources):
        return "BestEffort"
    return "Guaranteed" if all(_guaranteed(each) for each in resources) else "Burstable"


def _guaranteed(resources: Obj) -> bool:
    limits = object_at(resources, "limits")
    requests = object_at(resources, "requests") or limits
    return all(name in limits and limits[name] == requests.get(name) for name in ("cpu", "memory"))


class PodTemplates(Strategy):
    """What the workload kinds share: a template with pod defaults and a selector that must match it."""

    counts_generations = True
    template_defaults: ClassVar[Rules] = under("spec.template.spec", POD_SPEC)

    def default(self, obj: Obj) -> None:
        fill(obj, self.defaults)
        fill(obj, self.template_defaults)

    def validate(self, obj: Obj) -> list[FieldError]:
        claims = [text_at(claim, "metadata.name") for claim in objects_at(obj, "spec.volumeClaimTemplates")]
        found = validate_pod_spec(object_at(obj, "spec.template.spec"), "spec.template.spec", claims)
        replicas = value_at(obj, "spec.replicas")
        if replicas is not None and replicas < 0:
            found.append(invalid_value("spec.replicas", replicas, "must be greater than or equal to 0"))
        if not object_at(obj, "spec.selector"):
            return [*found, required("spec.selector")]
        labels = strings_at(obj, "spec.template.metadata.labels")
        if any(labels.get(key) != value for key, value in strings_at(obj, "spec.selector.matchLabels").items()):
            detail = "`selector` does not match template `labels`"
            found.append(invalid_value("spec.template.metadata.labels", labels, detail))
        return found
