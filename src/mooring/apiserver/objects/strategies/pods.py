"""Pods, and the pod templates of workloads: defaults, validation, what may change, graceful deletion."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, ClassVar

from mooring.apiserver.errors import (
    FieldError,
    Obj,
    Resource,
    forbidden,
    forbidden_field,
    invalid_value,
)
from mooring.apiserver.objects.defaults import Rules, fill, under
from mooring.apiserver.objects.strategies.runtime_classes import (
    RUNTIME_CLASSES,
    apply_runtime_class,
    refuse_own_overhead,
)
from mooring.apiserver.objects.strategy import Admission, Strategy
from mooring.apiserver.objects.validation import pods as valid
from mooring.apiserver.values.dotted import object_at, objects_at, strings_at, text_at, value_at

LONGEST_GRACE_S = 2**31 - 1
"""68 years. The end of a longer grace period may be no time that can be written, and the pod must go all the
same."""


def _pull_policy(container: Obj) -> str:
    image = text_at(container, "image").rpartition("/")[2]
    pinned = "@" in image or (":" in image and not image.endswith(":latest"))
    return "IfNotPresent" if pinned else "Always"


_HTTP: Rules = {"httpGet?.path": "/", "httpGet?.scheme": "HTTP"}
_PROBE: Rules = {
    "timeoutSeconds": 1,
    "periodSeconds": 10,
    "successThreshold": 1,
    "failureThreshold": 3,
    "grpc?.service": "",
    **_HTTP,
}

_CONTAINER: Rules = {
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "imagePullPolicy": _pull_policy,
    "resources": {},
    "ports[].protocol": "TCP",
    "env[].valueFrom?.fieldRef?.apiVersion": "v1",
    **under("livenessProbe?", _PROBE),
    **under("readinessProbe?", _PROBE),
    **under("startupProbe?", _PROBE),
    **under("lifecycle?.postStart?", _HTTP),
    **under("lifecycle?.preStop?", _HTTP),
}


def _image_policy(image: Obj) -> str:
    return _pull_policy({"image": image.get("reference")})


def _without_source(volume: Obj) -> Obj | None:
    """What a volume that says no source is."""
    return None if volume.keys() - {"name"} else {}


def _account(spec: Obj) -> str | None:
    return spec.get("serviceAccount") or None


def _account_name(spec: Obj) -> str | None:
    return spec.get("serviceAccountName") or None


POD_SPEC: Rules = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
    "serviceAccountName": _account,
    "serviceAccount": _account_name,
    "securityContext": {},
    **under("containers[]", _CONTAINER),
    **under("initContainers[]", _CONTAINER),
    **under("ephemeralContainers[]", _CONTAINER),
    "volumes[].configMap?.defaultMode": 420,
    "volumes[].secret?.defaultMode": 420,
    "volumes[].projected?.defaultMode": 420,
    "volumes[].downwardAPI?.defaultMode": 420,
    "volumes[].hostPath?.type": "",
    "volumes[].ephemeral?.volumeClaimTemplate?.spec?.volumeMode": "Filesystem",
    "volumes[].emptyDir": _without_source,
    "volumes[].azureDisk?.cachingMode": "ReadWrite",
    "volumes[].azureDisk?.fsType": "ext4",
    "volumes[].azureDisk?.readOnly": False,
    "volumes[].azureDisk?.kind": "Shared",
    "volumes[].iscsi?.iscsiInterface": "default",
    "volumes[].rbd?.pool": "rbd",
    "volumes[].rbd?.user": "admin",
    "volumes[].rbd?.keyring": "/etc/ceph/keyring",
    "volumes[].scaleIO?.storageMode": "ThinProvisioned",
    "volumes[].scaleIO?.fsType": "xfs",
    "volumes[].image?.pullPolicy": _image_policy,
    "volumes[].downwardAPI?.items[].fieldRef?.apiVersion": "v1",
    "volumes[].projected?.sources[].downwardAPI?.items[].fieldRef?.apiVersion": "v1",
    "volumes[].projected?.sources[].serviceAccountToken?.expirationSeconds": 3600,
}
"""The defaults of a pod's spec, relative to it; workloads use them for their templates."""

_TOLERATIONS = tuple(
    {
        "key": f"node.kubernetes.io/{key}",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 300,
    }
    for key in ("not-ready", "unreachable")
)

_ADMITTED = ("priority", "preemptionPolicy", "nodeName", "serviceAccountName")
"""What the server or a binding has put into a spec, so that a replaced manifest need not say it."""

_UPDATE_FORBIDDEN = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


class Pods(Strategy):
    """Pods proper."""

    defaults: ClassVar[Rules] = {**under("spec", POD_SPEC), "spec.enableServiceLinks": True}
    status_keeps = ("ownerReferences",)
    returns_deleted = True
    counts_generations = True
    rules = (valid.pod,)
    new_rules = (valid.new_pod,)

    def default(self, obj: Obj) -> None:
        super().default(obj)
        spec = obj["spec"]
        for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
            _default_container(container, host_network="hostNetwork" in spec)
        if spec["terminationGracePeriodSeconds"] < 0:
            spec["terminationGracePeriodSeconds"] = 1

    def prepare_create(self, obj: Obj, admission: Admission) -> None:
        spec = object_at(obj, "spec")
        spec |= _priority(obj, admission)
        obj["status"] = {"phase": "Pending", "qosClass": _qos_class(spec)}
        _add_tolerations(spec)
        apply_runtime_class(obj, admission.objects(RUNTIME_CLASSES))

    def validate_new(self, obj: Obj) -> list[FieldError]:
        errors = super().validate_new(obj)
        if not errors:
            refuse_own_overhead(obj)
        return errors

    def prepare_update(self, obj: Obj, old: Obj, admission: Admission) -> None:
        before, spec = object_at(old, "spec"), object_at(obj, "spec")
        spec |= {field: before[field] for field in _ADMITTED if field in before and field not in spec}
        _add_tolerations(spec)

    def validate_update(self, obj: Obj, old: Obj) -> list[FieldError]:
        before, after = object_at(old, "spec"), object_at(obj, "spec")
        for group in ("containers", "initContainers"):
            if len(objects_at(after, group)) != len(objects_at(before, group)):
                return [forbidden_field(f"spec.{group}", "pod updates may not add or remove containers")]
        errors = [*_deadline_errors(after, before), *_toleration_errors(after, before)]
        changed = _fixed_part(after, before) != _fixed_part(before, before)
        return errors + ([forbidden_field("spec", _UPDATE_FORBIDDEN)] if changed else [])

    def fields(self, obj: Obj) -> Mapping[str, str]:
        named = ("spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName")
        states = ("status.phase", "status.podIP", "status.nominatedNodeName")
        fields = {path: text_at(obj, path) for path in (*named, *states)}
        return fields | {"spec.hostNetwork": "true" if value_at(obj, "spec.hostNetwork") else "false"}

    def grace_seconds(self, obj: Obj, requested: int | None) -> int | None:
        """Upstream's rule: an unscheduled or finished pod has nothing to stop, so it goes at once."""
        if not text_at(obj, "spec.nodeName") or text_at(obj, "status.phase") in ("Succeeded", "Failed"):
            return 0
        wanted = value_at(obj, "spec.terminationGracePeriodSeconds") if requested is None else requested
        return min(int(wanted), LONGEST_GRACE_S) if wanted >= 0 else 1


_KEPT_METADATA = ("labels", "annotations", "finalizers", "ownerReferences")


class EphemeralContainers(Pods):
    """Pods through their subresource `ephemeralcontainers`: such containers are added, and nothing else
    changes."""

    def prepare_update(self, obj: Obj, old: Obj, admission: Admission) -> None:
        added = object_at(obj, "spec").get("ephemeralContainers")
        obj["spec"] = {**object_at(old, "spec"), "ephemeralContainers": added}
        if added is None:
            del obj["spec"]["ephemeralContainers"]
        for field in _KEPT_METADATA:
            obj["metadata"].pop(field, None)
            if field in old["metadata"]:
                obj["metadata"][field] = old["metadata"][field]

    def validate_update(self, obj: Obj, old: Obj) -> list[FieldError]:
        if valid.MIRROR in strings_at(old, "metadata.annotations"):
            return [forbidden_field("", "static pods do not support ephemeral containers")]
        path = "spec.ephemeralContainers"
        given = {text_at(each, "name"): each for each in objects_at(obj, path)}
        errors: list[FieldError] = []
        for each in objects_at(old, path):
            name = text_at(each, "name")
            if given.get(name) != each:
                done = "removed" if name not in given else "changed"
                detail = f'existing ephemeral containers "{name}" may not be {done}\n'
                errors.append(forbidden_field(path, detail))
        return errors


def _default_container(container: Obj, *, host_network: bool) -> None:
    """The defaults that pods have and templates lack: a request is the limit, and a host port of a pod in
    the host's network is the container's port."""
    resources = container["resources"]
    if limits := resources.get("limits"):
        resources["requests"] = limits | resources.get("requests", {})
    for port in container.get("ports", ()) if host_network else ():
        port.setdefault("hostPort", port.get("containerPort"))


def _deadline_errors(spec: Obj, old: Obj) -> list[FieldError]:
    """A deadline that is set may only come nearer."""
    before, after = old.get("activeDeadlineSeconds"), spec.get("activeDeadlineSeconds")
    if before is None or (after is not None and after <= before):
        return []
    detail = "must be less than or equal to previous value"
    if after is None:
        detail = "must not update from a positive integer to nil value"
    return [invalid_value("spec.activeDeadlineSeconds", after, detail)]


def _toleration_errors(spec: Obj, old: Obj) -> list[FieldError]:
    """Tolerations may be added, and tolerate longer or shorter."""
    kept = [_but_seconds(each) for each in objects_at(spec, "tolerations")]
    if all(_but_seconds(each) in kept for each in objects_at(old, "tolerations")):
        return []
    return [
        forbidden_field(
            "spec.tolerations", "existing toleration can not be modified except its tolerationSeconds"
        )
    ]


def _but_seconds(toleration: Obj) -> Obj:
    return {key: value for key, value in toleration.items() if key != "tolerationSeconds"}


def _fixed_part(spec: Obj, old: Obj) -> Obj:
    """What of a pod's spec may not change, with the rest taken from `old`."""
    fixed = deepcopy(spec)
    for group in ("containers", "initContainers"):
        for container, before in zip(objects_at(fixed, group), objects_at(old, group), strict=False):
            container["image"] = before.get("image")
    fixed["activeDeadlineSeconds"] = old.get("activeDeadlineSeconds")
    fixed["tolerations"] = old.get("tolerations")
    if (value_at(old, "terminationGracePeriodSeconds") or 0) < 0:
        fixed["terminationGracePeriodSeconds"] = old["terminationGracePeriodSeconds"]
    gates = {gate.get("name") for gate in objects_at(old, "schedulingGates")}
    if all(gate.get("name") in gates for gate in objects_at(fixed, "schedulingGates")):
        fixed["schedulingGates"] = old.get("schedulingGates")
    return {key: value for key, value in fixed.items() if value not in (None, [])}


_COMPUTED = {
    "priority": (
        "the integer value of priority ({given}) must not be provided in pod spec; "
        "priority admission controller computed {computed} from the given PriorityClass name"
    ),
    "preemptionPolicy": (
        "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; "
        "priority admission controller computed {computed} from the given PriorityClass name"
    ),
}
"""Upstream's answers (admission plugin Priority) to a pod whose value differs from its class's."""


def _priority(pod: Obj, admission: Admission) -> Obj:
    """Admission plugin Priority: what the pod's class says, or the default class. Raises Forbidden."""
    name = text_at(pod, "spec.priorityClassName")
    classes = {
        text_at(each, "metadata.name"): each
        for each in admission.objects("priorityclasses.scheduling.k8s.io")
    }
    if name and name not in classes:
        missing = f"no PriorityClass with name {name} was found"
        raise forbidden(Resource("", "pods"), text_at(pod, "metadata.name"), missing)
    defaults = [each for each in classes.values() if each.get("globalDefault")]
    none: Obj = {}
    chosen = classes[name] if name else min(defaults, key=lambda each: each.get("value", 0), default=none)
    computed: Obj = {"priority": chosen.get("value", 0)}
    computed["preemptionPolicy"] = chosen.get("preemptionPolicy", "PreemptLowerPriority")
    for field, template in _COMPUTED.items():
        given = value_at(pod, f"spec.{field}")
        if given is not None and given != computed[field]:
            name = text_at(pod, "metadata.name")
            raise forbidden(
                Resource("", "pods"), name, template.format(given=given, computed=computed[field])
            )
    return computed | ({"priorityClassName": text_at(chosen, "metadata.name")} if chosen else {})


def _add_tolerations(spec: Obj) -> None:
    """Admission plugin DefaultTolerationSeconds: 300 s on an unready or unreachable node, unless the pod
    has tolerations of its own for that."""
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
    return all(name in limits and limits[name] == requests.get(name) for name in ("cpu", "memory"))  # nosec B113


class PodTemplates(Strategy):
    """What the workload kinds share: a template with pod defaults and a selector that must match it."""

    counts_generations = True
    template_defaults: ClassVar[Rules] = under("spec.template.spec", POD_SPEC)

    def default(self, obj: Obj) -> None:
        fill(obj, self.defaults)
        fill(obj, self.template_defaults)
