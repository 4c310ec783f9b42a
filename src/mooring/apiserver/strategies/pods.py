"""Pods, and the pod templates of workloads: defaults, validation, what may change, graceful deletion."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, ClassVar

from mooring.apiserver.defaults import Rules, fill, under
from mooring.apiserver.errors import FieldError, Obj, duplicate, forbidden_field, invalid_value, required, unsupported
from mooring.apiserver.strategy import Admission, Strategy, label_error, value_at


def _pull_policy(container: Obj) -> str:
    image = str(container.get("image", "")).rpartition("/")[2]
    return "IfNotPresent" if "@" in image or not (":" not in image or image.endswith(":latest")) else "Always"


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

_TOLERATIONS = [
    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for key in ("not-ready", "unreachable")
]

_UPDATE_FORBIDDEN = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def validate_pod_spec(spec: Obj, path: str) -> list[FieldError]:
    """What upstream requires of a pod's or a template's spec, as far as this system depends on it."""
    volumes: list[Any] = spec.get("volumes") or []
    known = {str(volume.get("name", "")) for volume in volumes}
    containers: list[Any] = spec.get("containers") or []
    found = _names(volumes, f"{path}.volumes") + _names(containers, f"{path}.containers")
    if not containers:
        found.append(required(f"{path}.containers"))
    if spec.get("restartPolicy") not in ("Always", "OnFailure", "Never"):
        found.append(unsupported(f"{path}.restartPolicy", spec.get("restartPolicy"), ("Always", "OnFailure", "Never")))
    for group in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(group) or []):
            found += _validate_container(container, f"{path}.{group}[{index}]", known)
    return found


def _names(entries: list[Any], path: str) -> list[FieldError]:
    found: list[FieldError] = []
    seen: set[str] = set()
    for index, entry in enumerate(entries):
        name = str(entry.get("name") or "")
        if not name:
            found.append(required(f"{path}[{index}].name"))
        elif name in seen:
            found.append(duplicate(f"{path}[{index}].name", name))
        elif (why := label_error(name)) is not None:
            found.append(invalid_value(f"{path}[{index}].name", name, why))
        seen.add(name)
    return found


def _validate_container(container: Obj, path: str, volumes: set[str]) -> list[FieldError]:
    found = [] if container.get("image") else [required(f"{path}.image")]
    for index, mount in enumerate(container.get("volumeMounts") or []):
        at = f"{path}.volumeMounts[{index}]"
        if mount.get("name") not in volumes:
            found.append(FieldError("FieldValueNotFound", f"{at}.name", f'Not found: "{mount.get("name", "")}"'))
        if not mount.get("mountPath"):
            found.append(required(f"{at}.mountPath"))
    for index, device in enumerate(container.get("volumeDevices") or []):
        if device.get("name") not in volumes:
            at = f"{path}.volumeDevices[{index}].name"
            found.append(FieldError("FieldValueNotFound", at, f'Not found: "{device.get("name", "")}"'))
    return found


class Pods(Strategy):
    """Pods proper."""

    defaults = under("spec", POD_SPEC) | {"spec.enableServiceLinks": True}
    status_keeps = ("ownerReferences",)
    returns_deleted = True
    counts_generations = True

    def prepare_create(self, obj: Obj, admission: Admission) -> None:
        spec: Obj = obj["spec"]
        spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
        spec.setdefault("priority", 0)
        obj["status"] = {"phase": "Pending", "qosClass": _qos_class(spec)}
        _add_tolerations(spec)

    def prepare_update(self, obj: Obj, old: Obj, admission: Admission) -> None:
        obj["status"] = old.get("status", {})

    def validate(self, obj: Obj) -> list[FieldError]:
        return validate_pod_spec(obj["spec"], "spec")

    def validate_update(self, obj: Obj, old: Obj) -> list[FieldError]:
        changed = _fixed_part(obj["spec"], old["spec"]) != _fixed_part(old["spec"], old["spec"])
        return [forbidden_field("spec", _UPDATE_FORBIDDEN)] if changed else []

    def fields(self, obj: Obj) -> Mapping[str, str]:
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        return {
            "spec.nodeName": spec.get("nodeName", ""),
            "spec.restartPolicy": spec.get("restartPolicy", ""),
            "spec.schedulerName": spec.get("schedulerName", ""),
            "spec.serviceAccountName": spec.get("serviceAccountName", ""),
            "spec.hostNetwork": "true" if spec.get("hostNetwork") else "false",
            "status.phase": status.get("phase", ""),
            "status.podIP": status.get("podIP", ""),
            "status.nominatedNodeName": status.get("nominatedNodeName", ""),
        }

    def grace_seconds(self, obj: Obj, asked: int | None) -> int | None:
        """Upstream's rule: an unscheduled or finished pod has nothing to stop, so it goes at once."""
        spec, status = obj["spec"], obj.get("status") or {}
        if not spec.get("nodeName") or status.get("phase") in ("Succeeded", "Failed"):
            return 0
        wanted = asked if asked is not None else spec.get("terminationGracePeriodSeconds", 30)
        return int(wanted) if wanted >= 0 else 1


def _fixed_part(spec: Obj, old: Obj) -> Obj:
    """What of a pod's spec may not change, with the rest taken from `old`."""
    fixed = deepcopy(spec)
    for group in ("containers", "initContainers"):
        for container, before in zip(fixed.get(group) or [], old.get(group) or [], strict=False):
            container["image"] = before.get("image")
    fixed["activeDeadlineSeconds"] = old.get("activeDeadlineSeconds")
    before_tolerations: list[Any] = old.get("tolerations") or []
    if all(toleration in (fixed.get("tolerations") or []) for toleration in before_tolerations):
        fixed["tolerations"] = before_tolerations
    if value_at(old, "terminationGracePeriodSeconds") is not None and old["terminationGracePeriodSeconds"] < 0:
        fixed["terminationGracePeriodSeconds"] = old["terminationGracePeriodSeconds"]
    gates = {gate["name"] for gate in old.get("schedulingGates") or []}
    if all(gate.get("name") in gates for gate in fixed.get("schedulingGates") or []):
        fixed["schedulingGates"] = old.get("schedulingGates")
    return {key: value for key, value in fixed.items() if value not in (None, [])}


def _add_tolerations(spec: Obj) -> None:
    """Admission plugin DefaultTolerationSeconds: 300 s on an unready or unreachable node unless the pod says otherwise."""
    present: list[Obj] = spec.setdefault("tolerations", []) or []
    for toleration in _TOLERATIONS:
        if not any(_tolerates(own, toleration["key"]) for own in present):
            present.append(dict(toleration))
    spec["tolerations"] = present


def _tolerates(toleration: Obj, key: Any) -> bool:
    return toleration.get("key") in (key, None, "") and toleration.get("effect") in ("NoExecute", None, "")


def _qos_class(spec: Obj) -> str:
    containers: list[Obj] = [*(spec.get("containers") or []), *(spec.get("initContainers") or [])]
    resources = [container.get("resources") or {} for container in containers]
    if not any(each.get("requests") or each.get("limits") for each in resources):
        return "BestEffort"
    return "Guaranteed" if all(_guaranteed(each) for each in resources) else "Burstable"


def _guaranteed(resources: Obj) -> bool:
    limits: Obj = resources.get("limits") or {}
    requests: Obj = resources.get("requests") or limits
    return all(name in limits and limits[name] == requests.get(name) for name in ("cpu", "memory"))


class PodTemplates(Strategy):
    """What the workload kinds share: a template with pod defaults and a selector that must match it."""

    counts_generations = True
    template_defaults: ClassVar[Rules] = under("spec.template.spec", POD_SPEC)

    def default(self, obj: Obj) -> None:
        fill(obj, self.defaults)
        fill(obj, self.template_defaults)
        metadata: Obj = obj["spec"]["template"].setdefault("metadata", {})
        metadata.setdefault("creationTimestamp", None)

    def validate(self, obj: Obj) -> list[FieldError]:
        spec = obj["spec"]
        template: Obj = spec.get("template") or {}
        found = validate_pod_spec(template.get("spec") or {}, "spec.template.spec")
        replicas = spec.get("replicas")
        if isinstance(replicas, int) and replicas < 0:
            found.append(invalid_value("spec.replicas", replicas, "must be greater than or equal to 0"))
        selector: Obj = spec.get("selector") or {}
        if not selector:
            return [*found, required("spec.selector")]
        labels: Obj = (template.get("metadata") or {}).get("labels") or {}
        if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
            found.append(
                invalid_value("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")
            )
        return found

    def fields(self, obj: Obj) -> Mapping[str, str]:
        return {}
