"""The spec of a pod and of what pods are made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from mooring.apiserver.objects.validation import containers as parts
from mooring.apiserver.objects.validation import security
from mooring.apiserver.objects.validation.checks import (
    NONE,
    Errors,
    always,
    at,
    between,
    each,
    entries,
    exactly,
    needed,
    objects,
    one_of,
    part,
    part_of,
    present,
    record,
    text,
    too_long,
)  # fmt: skip
from mooring.apiserver.objects.validation.containers import Around
from mooring.apiserver.objects.validation.formats import (
    ip_error,
    label_error,
    subdomain_error,
    underscored_subdomain_error,
)  # fmt: skip
from mooring.apiserver.objects.validation.labels import annotations, label_name, labels, name_errors
from mooring.apiserver.objects.validation.placement import affinity, spreading, tolerations
from mooring.apiserver.objects.validation.resources import (
    pod_resource_name,
    requirements,
)
from mooring.apiserver.objects.validation.runtime_classes import overhead
from mooring.apiserver.objects.validation.volumes import pod_source, template_source
from mooring.kube.quantity import parse_quantity

RESTART_POLICIES = ("Always", "OnFailure", "Never")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
MIRROR = "kubernetes.io/config.mirror"


def pod(obj: Obj) -> Errors:
    """A whole pod but its metadata's form."""
    metadata, spec = obj["metadata"], part(obj, "spec")
    errors = [*pod_annotations(metadata.get("annotations"), spec, "metadata.annotations"),
             *at("spec", pod_spec(spec, metadata.get("name") or "", in_pod=True))]  # fmt: skip
    if not spec.get("serviceAccountName"):
        errors += _tokens_without_account(spec)
    for group in ("containers", "initContainers"):
        errors += at(f"spec.{group}", each(parts.trimmed_image)(spec.get(group)))
    return errors


def new_pod(obj: Obj) -> Errors:
    """The fields that a new pod may not have."""
    spec = part(obj, "spec")
    errors: list[FieldError] = []
    if spec.get("ephemeralContainers"):
        errors.append(forbidden_field("spec.ephemeralContainers", "cannot be set on create"))
    if spec.get("nodeName") and spec.get("schedulingGates"):
        detail = "cannot be set until all schedulingGates have been cleared"
        errors.append(forbidden_field("spec.nodeName", detail))
    return errors


def _tokens_without_account(spec: Obj) -> list[FieldError]:
    detail = "must not be specified when serviceAccountName is not set"
    return [
        forbidden_field(f"spec.volumes[{index}].projected.sources[{place}].serviceAccountToken", detail)
        for index, volume in enumerate(objects(spec.get("volumes")))
        for place, source in enumerate(objects(part(volume, "projected").get("sources")))
        if source.get("serviceAccountToken") is not None
    ]


def template(value: Obj, claims: Sequence[str] = (), *, ignored: Sequence[str] = ()) -> Errors:
    """A pod template; a StatefulSet's pods also get volumes named like its `claims`, and `ignored` is its
    own."""
    metadata, spec = part(value, "metadata"), part(value, "spec")
    if ignored or claims:
        spec = {key: each for key, each in spec.items() if key not in ignored} | _with_claims(spec, claims)
    errors = at("labels", labels(metadata.get("labels")))
    errors += at("annotations", annotations(metadata.get("annotations")))
    errors += pod_annotations(metadata.get("annotations"), spec, "annotations")
    errors += at("spec", pod_spec(spec))
    if spec.get("ephemeralContainers"):
        errors.append(
            forbidden_field("spec.ephemeralContainers", "ephemeral containers not allowed in pod template")
        )
    return errors


def _with_claims(spec: Obj, claims: Sequence[str]) -> Obj:
    own = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in dict.fromkeys(claims)]
    rest = [volume for volume in objects(spec.get("volumes")) if volume.get("name") not in claims]
    return {"volumes": [*own, *rest]} if own else {}


def pod_annotations(value: Any, spec: Obj, path: str) -> list[FieldError]:
    """The annotations of a pod that have a meaning in Kubernetes."""
    pairs: Mapping[str, str] = value or {}
    errors: list[FieldError] = []
    if MIRROR in pairs and not spec.get("nodeName"):
        detail = "must set spec.nodeName if mirror pod annotation is set"
        errors.append(invalid_value(f"{path}[{MIRROR}]", pairs[MIRROR], detail))
    cost = pairs.get("controller.kubernetes.io/pod-deletion-cost")
    if cost is not None and not _is_cost(cost):
        key = f"{path}[controller.kubernetes.io/pod-deletion-cost]"
        errors.append(invalid_value(key, cost, "must be a 32bit integer"))
    return errors


def _is_cost(text_of: str) -> bool:
    digits = text_of.removeprefix("-")
    if (
        not (digits.isascii() and digits.isdecimal())
        or (len(digits) > 1 and digits[0] == "0")
        or text_of == "-0"
    ):
        return False
    return -(2**31) <= int(text_of) < 2**31


def pod_spec(spec: Obj, name: str = "", *, in_pod: bool = False) -> Errors:
    """A pod's spec; `name` is the pod's, of which claims of ephemeral volumes are named."""
    errors: list[FieldError] = list(_GRACE(spec))
    volumes, of_volumes = _volumes(objects(spec.get("volumes")), name, in_pod=in_pod)
    errors += at("volumes", of_volumes)
    claims = objects(spec.get("resourceClaims"))
    if claims:
        errors += at("resourceClaims", _resource_claims(claims))
    around = Around(spec, volumes, frozenset(claim["name"] for claim in claims if claim.get("name")))
    errors += _containers(spec, around)
    if (resources := spec.get("resources")) is not None:
        errors += at("resources", _pod_resources(resources, spec, around))
    if spec.get("hostNetwork"):
        errors += _host_network(spec, in_pod=in_pod)
    errors += [*_EARLY(spec), *at("securityContext", security.pod_context(spec))]
    errors += [*_PLACING(spec), *at("dnsConfig", _dns(spec)), *_GATES(spec)]
    every = _every_container(spec)
    errors += security.host_process(spec, every)
    errors += [*_host_users(spec), *_host_name(spec), *_LATE(spec)]
    if (system := spec.get("os")) is not None:
        errors += _system(system, spec, every)
    return [*errors, *_file_keys(every, volumes)]


_GRACE = record(("terminationGracePeriodSeconds", present()))


def _volumes(entries: list[Obj], pod_name: str, *, in_pod: bool) -> tuple[Mapping[str, Obj], Errors]:
    """The valid volumes by name, and what is wrong with the others."""
    source = pod_source if in_pod else template_source
    made = {
        f"{pod_name}-{each.get('name')}" for each in entries if pod_name and each.get("ephemeral") is not None
    }
    valid: dict[str, Obj] = {}
    errors: list[FieldError] = []
    for index, volume in enumerate(entries):
        name = volume.get("name") or ""
        wrong = list(source(volume))
        if pod_name and name and volume.get("ephemeral") is not None:
            wrong += at("name", exactly(subdomain_error)(f"{pod_name}-{name}"))
        wrong += _VOLUME_NAME(volume)
        if name in valid:
            wrong.append(duplicate("name", name))
        if wrong:
            errors += at(f"[{index}]", wrong)
        else:
            valid[name] = volume
        claimed = part(volume, "persistentVolumeClaim").get("claimName")
        if claimed in made:
            detail = "must not reference a PVC that gets created for an ephemeral volume"
            errors.append(invalid_value(f"[{index}].persistentVolumeClaim.claimName", claimed, detail))
    return valid, errors


_VOLUME_NAME = record(("name", needed(text(label_error))))


def _resource_claims(claims: list[Obj]) -> Errors:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, claim in enumerate(claims):
        name, sources = claim.get("name") or "", [claim.get(field) for field in _CLAIM_SOURCES]
        wrong: list[FieldError] = [] if name else [required("name")]
        if name in seen:
            wrong.append(duplicate("name", name))
        else:
            wrong += at("name", text(label_error)(name))
            seen |= {name} - {""}
        given = [source for source in sources if source is not None]
        if len(given) > 1:
            detail = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            wrong.append(invalid_value("", claim, detail))
        if not given:
            detail = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            wrong.append(invalid_value("", claim, detail))
        errors += at(f"[{index}]", [*wrong, *_CLAIM_NAMES(claim)])
    return errors


_CLAIM_SOURCES = ("resourceClaimName", "resourceClaimTemplateName")
_CLAIM_NAMES = record(*((field, exactly(subdomain_error)) for field in _CLAIM_SOURCES))


def _containers(spec: Obj, around: Around) -> list[FieldError]:
    regular, initial = objects(spec.get("containers")), objects(spec.get("initContainers"))
    errors = at("containers", parts.containers(regular, around))
    if initial:
        errors += at("initContainers", parts.init_containers(initial, regular, around))
    if late := objects(spec.get("ephemeralContainers")):
        errors += at("ephemeralContainers", parts.ephemeral_containers(late, [*regular, *initial], around))
    return errors


def _every_container(spec: Obj) -> list[tuple[str, Obj]]:
    """Every container with its path, in the order in which they run."""
    groups = ("initContainers", "containers", "ephemeralContainers")
    return [(f"{group}[{i}]", each) for group in groups for i, each in enumerate(objects(spec.get(group)))]


def _pod_resources(resources: Obj, spec: Obj, around: Around) -> Errors:
    """Resources of the pod as a whole (KEP-2837): at least what its containers ask for."""
    if part(spec, "os").get("name") == "windows":
        return [forbidden_field("", "may not be set for a windows pod")]
    errors: list[FieldError] = []
    if resources.get("claims") is not None:
        errors.append(forbidden_field("claims", "claims may not be set for Resources at pod-level"))
    errors += requirements(resources, pod_resource_name, around.claims)
    for name, value in part(resources, "requests").items():
        requested = _summed(spec, name)
        if requested > parse_quantity(value):
            detail = f"must be greater than or equal to aggregate container requests of {requested}"
            errors.append(invalid_value(f"requests[{name}]", value, detail))
    limits = part(resources, "limits")
    for index, container in enumerate(objects(spec.get("containers"))):
        for name, value in (part(part(container, "resources"), "limits")).items():
            if name in limits and parse_quantity(value) > parse_quantity(limits[name]):
                detail = f"must be less than or equal to pod limits of {limits[name]}"
                errors.append(invalid_value(f"containers[{index}][{name}].limits", value, detail))
    return errors


def _summed(spec: Obj, name: str) -> Any:
    """The largest amount of a resource that the containers request at one time."""

    def requested(container: Obj) -> Any:
        return parse_quantity((part(part(container, "resources"), "requests")).get(name) or "0")

    running = sum(requested(each) for each in objects(spec.get("containers")))
    sidecars = highest = parse_quantity("0")
    for container in objects(spec.get("initContainers")):
        if container.get("restartPolicy") == "Always":
            sidecars += requested(container)
            highest = max(highest, sidecars)
        else:
            highest = max(highest, sidecars + requested(container))
    return max(running + sidecars, highest)


def _host_network(spec: Obj, *, in_pod: bool) -> list[FieldError]:
    detail = "must match `containerPort` when `hostNetwork` is true"
    return [
        invalid_value(f"containers[{index}].ports[{place}].hostPort", entry.get("hostPort") or 0, detail)
        for index, container in enumerate(objects(spec.get("containers")))
        for place, entry in enumerate(objects(container.get("ports")))
        if (in_pod or entry.get("hostPort"))
        and (entry.get("hostPort") or 0) != (entry.get("containerPort") or 0)
    ]


_EARLY = record(
    ("restartPolicy", always(one_of(*RESTART_POLICIES, needs=True))),
    ("dnsPolicy", always(one_of(*_DNS_POLICIES, needs=True))),
    ("nodeSelector", labels),
)
_PLACING = record(("affinity", affinity))


def _dns(spec: Obj) -> Errors:
    config = spec.get("dnsConfig")
    nameservers = entries(part_of(config), "nameservers")
    if spec.get("dnsPolicy") == "None" and not nameservers:
        if config is None:
            return [required("", "must provide `dnsConfig` when `dnsPolicy` is None")]
        return [required("nameservers", "must provide at least one DNS nameserver when `dnsPolicy` is None")]
    if config is None:
        return NONE
    searches = entries(config, "searches")
    errors: list[FieldError] = []
    if len(nameservers) > 3:
        errors.append(invalid_value("nameservers", nameservers, "must not have more than 3 nameservers"))
    errors += at("nameservers", each(exactly(ip_error))(nameservers))
    if len(searches) > 32:
        errors.append(invalid_value("searches", searches, "must not have more than 32 search paths"))
    if len(" ".join(searches)) > 2048:
        detail = "must not have more than 2048 characters (including spaces) in the search list"
        errors.append(invalid_value("searches", searches, detail))
    errors += at("searches", each(_search)(searches))
    for index, option in enumerate(objects(config.get("options"))):
        errors += [] if option.get("name") else [required(f"options[{index}]", "must not be empty")]
    return errors


def _search(domain: str) -> Errors:
    return NONE if domain == "." else exactly(underscored_subdomain_error)(domain.removesuffix("."))


def _readiness_gate(gate: Obj) -> Errors:
    return name_errors("conditionType", gate.get("conditionType") or "")


def _scheduling_gates(value: Any) -> Errors:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, gate in enumerate(objects(value)):
        name = gate.get("name") or ""
        errors += at(f"[{index}]", label_name(name))
        if name in seen:
            errors.append(duplicate(f"[{index}]", name))
        seen.add(name)
    return errors


_GATES = record(
    ("readinessGates", each(_readiness_gate)),
    ("schedulingGates", _scheduling_gates),
    ("topologySpreadConstraints", spreading),
)


def _host_users(spec: Obj) -> list[FieldError]:
    """A pod with users of its own shares little else with the host (KEP-127)."""
    if spec.get("hostUsers") is not False:
        return []
    # As upstream: two of the paths are not those of the API.
    shared = {"hostNetwork": "hostNetwork", "hostPID": "HostPID", "hostIPC": "HostIPC"}
    errors = [
        forbidden_field(path, "when `hostUsers` is false")
        for field, path in shared.items()
        if spec.get(field)
    ]
    return errors + [
        forbidden_field(f"{path}.volumeDevices", "when `hostUsers` is false")
        for path, container in _every_container(spec)
        if container.get("volumeDevices")
    ]


def _host_name(spec: Obj) -> list[FieldError]:
    name = spec.get("hostnameOverride")
    if name is None:
        return []
    path = "hostnameOverride"
    errors: list[FieldError] = []
    if spec.get("setHostnameAsFQDN"):
        errors.append(forbidden_field(path, "may not be specified when setHostnameAsFQDN is true"))
    if spec.get("hostNetwork"):
        errors.append(forbidden_field(path, "may not be specified when hostNetwork is true"))
    if len(name) > 64:
        errors.append(too_long(path, 64))
    return [*errors, *at(path, exactly(subdomain_error)(name))]


_alias = record(("ip", always(exactly(ip_error))), ("hostnames", each(exactly(subdomain_error))))


_LATE = record(
    ("serviceAccountName", text(subdomain_error)),
    ("nodeName", text(subdomain_error)),
    ("activeDeadlineSeconds", between(1)),
    ("hostname", text(label_error)),
    ("subdomain", text(label_error)),
    ("tolerations", tolerations),
    ("hostAliases", each(_alias)),
    ("priorityClassName", text(subdomain_error)),
    ("runtimeClassName", exactly(subdomain_error)),
    ("preemptionPolicy", one_of("PreemptLowerPriority", "Never", needs=True)),
    ("overhead", overhead),
)


def _system(system: Obj, spec: Obj, every: list[tuple[str, Obj]]) -> Errors:
    name = system.get("name") or ""
    if not name:
        return [required("os.name")]
    if name not in ("linux", "windows"):
        return [unsupported("os", name, ("linux", "windows"))]
    return security.for_linux(spec, every) if name == "linux" else security.for_windows(spec, every)


def _file_keys(every: list[tuple[str, Obj]], volumes: Mapping[str, Obj]) -> list[FieldError]:
    """Variables from files are in an emptyDir of the pod."""
    errors: list[FieldError] = []
    for path, container in every:
        for index, variable in enumerate(objects(container.get("env"))):
            key = part(variable, "valueFrom").get("fileKeyRef")
            if key is None:
                continue
            name, place = key.get("volumeName") or "", f"{path}.env[{index}].valueFrom.fileKeyRef.volumeName"
            if name not in volumes:
                errors.append(not_among(place, name))
            elif volumes[name].get("emptyDir") is None:
                errors.append(invalid_value(place, name, "referenced volume must be of type emptyDir"))
    return errors
