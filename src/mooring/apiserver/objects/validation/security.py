"""Security contexts of pods and containers, on Linux and on Windows."""

from __future__ import annotations

import re
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
    Errors,
    at,
    descending,
    each,
    entries,
    group_id,
    one_of,
    part,
    record,
    too_long,
)
from mooring.apiserver.objects.validation.formats import subdomain_error

_PROFILES = ("Localhost", "RuntimeDefault", "Unconfined")
_SYSCTL = re.compile(r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?")
_LONGEST_PROFILE, _MOST_CREDENTIALS = 4095, 64 * 1024
_IPC_SYSCTLS, _IPC_PREFIXES = ("kernel.sem",), ("kernel.shm", "kernel.msg", "fs.mqueue.")


def _seccomp(profile: Obj) -> Errors:
    kind, local = profile.get("type") or "", profile.get("localhostProfile")
    errors: list[FieldError] = []
    if not kind:
        errors.append(required("type", "type is required when seccompProfile is set"))
    elif kind not in _PROFILES:
        errors.append(unsupported("type", kind, _PROFILES))
    if kind != "Localhost":
        detail = "can only be set when seccomp type is Localhost"
        return [*errors, invalid_value("localhostProfile", profile, detail)] if local is not None else errors
    if local is None:
        return [*errors, required("localhostProfile", "must be set when seccomp type is Localhost")]
    return [*errors, *at("localhostProfile", descending(local))]


def _app_armor(profile: Obj) -> Errors:
    kind, local = profile.get("type") or "", profile.get("localhostProfile")
    if not kind:
        return [required("type", "type is required when appArmorProfile is set")]
    if kind not in _PROFILES:
        return [unsupported("type", kind, _PROFILES)]
    if kind != "Localhost":
        detail = "can only be set when AppArmor type is Localhost"
        return [invalid_value("localhostProfile", local, detail)] if local is not None else NONE
    if not local:
        return [required("localhostProfile", "must be set when AppArmor type is Localhost")]
    errors: list[FieldError] = []
    if local != local.strip():
        errors.append(invalid_value("localhostProfile", local, "must not be padded with whitespace"))
    return (
        [*errors, too_long("localhostProfile", _LONGEST_PROFILE)] if len(local) > _LONGEST_PROFILE else errors
    )


_NETBIOS = re.compile(r'[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}')
_DNS = re.compile(
    r"[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*"
)


def _windows_user(value: str) -> Errors:
    """A user's name, perhaps after a domain: every rule that it breaks."""
    if not value:
        return [invalid_value("", value, "runAsUserName cannot be an empty string")]
    if any(ord(each) < 32 or ord(each) == 127 for each in value):
        return [invalid_value("", value, "runAsUserName cannot contain control characters")]
    if value.count("\\") > 1:
        return [invalid_value("", value, "runAsUserName cannot contain more than one backslash")]
    domain, slash, user = value.rpartition("\\")
    broken = {
        "runAsUserName's Domain length must be under 256 characters": len(domain) >= 256,
        "runAsUserName's Domain doesn't match the NetBios nor the DNS format": bool(slash)
        and not (_NETBIOS.fullmatch(domain) or _DNS.fullmatch(domain)),
        "runAsUserName's User cannot be empty": not user,
        "runAsUserName's User length must not be longer than 104 characters": len(user) > 104,
        "runAsUserName's User cannot contain only periods or spaces": bool(user) and not user.strip(". "),
        "runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]": any(
            mark in user for mark in '"/\\:;|=,+*?<>@[]'
        ),
    }
    return [invalid_value("", value, detail) for detail, is_broken in broken.items() if is_broken]


def _credentials(value: str) -> Errors:
    if not value:
        return [invalid_value("", value, "gmsaCredentialSpec cannot be an empty string")]
    detail = "gmsaCredentialSpec size must be under 64 KiB"
    return [invalid_value("", value, detail)] if len(value) > _MOST_CREDENTIALS else NONE


def _credential_name(value: str) -> Errors:
    why = subdomain_error(value)
    return [invalid_value("", value, why)] if why is not None else NONE


_windows = record(
    ("gmsaCredentialSpecName", _credential_name),
    ("gmsaCredentialSpec", _credentials),
    ("runAsUserName", _windows_user),
)
_users = (("runAsUser", group_id), ("runAsGroup", group_id))


def container_context(context: Obj, *, host_users: bool) -> Errors:
    """The security context of a container; `host_users` says whether the pod's users are the host's."""
    errors = list(record(*_users)(context))
    mount = context.get("procMount")
    if mount is not None:
        errors += at("procMount", one_of("Default", "Unmasked")(mount))
        if host_users and mount == "Unmasked":
            errors.append(invalid_value("procMount", mount, "`hostUsers` must be false to use `Unmasked`"))
    errors += (
        at("seccompProfile", _seccomp(context["seccompProfile"]))
        if context.get("seccompProfile") is not None
        else []
    )
    return [*errors, *_escalation(context), *_PROFILE(context)]


_PROFILE = record(("windowsOptions", _windows), ("appArmorProfile", _app_armor))


def _escalation(context: Obj) -> Errors:
    """A privileged container cannot forbid privilege escalation."""
    if context.get("allowPrivilegeEscalation") is not False:
        return NONE
    errors: list[FieldError] = []
    detail = "cannot set `allowPrivilegeEscalation` to false and "
    if context.get("privileged"):
        errors.append(invalid_value("", context, f"{detail}`privileged` to true"))
    added = entries(part(context, "capabilities"), "add")
    return [
        *errors,
        *(
            invalid_value("", context, f"{detail}`capabilities.Add` CAP_SYS_ADMIN")
            for e in added
            if e == "CAP_SYS_ADMIN"
        ),
    ]


def _sysctls(spec: Obj) -> Errors:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, entry in enumerate(entries(spec["securityContext"], "sysctls")):
        name, path = entry.get("name") or "", f"sysctls[{index}].name"
        if not name:
            errors.append(required(path))
        elif len(name) > 253 or _SYSCTL.fullmatch(name) is None:
            detail = f"must have at most 253 characters and match regex ^{_SYSCTL.pattern}$"
            errors.append(invalid_value(path, name, detail))
        elif name in seen:
            errors.append(duplicate(path, name))
        errors += at(path, _host_sysctl(name, spec))
        seen.add(name)
    return errors


def _host_sysctl(name: str, spec: Obj) -> Errors:
    """A kernel parameter of a namespace that the pod shares with the host."""
    dotted = _dotted(name)
    if spec.get("hostNetwork") and dotted.startswith("net."):
        return [invalid_value("", name, "may not be specified when 'hostNetwork' is true")]
    if spec.get("hostIPC") and (dotted in _IPC_SYSCTLS or dotted.startswith(_IPC_PREFIXES)):
        return [invalid_value("", name, "may not be specified when 'hostIPC' is true")]
    return NONE


def _dotted(name: str) -> str:
    """A parameter's name with dots between its parts: `net/ipv4/x` is `net.ipv4.x`."""
    first = next((mark for mark in name if mark in "./"), ".")
    return name if first == "." else name.translate(str.maketrans("./", "/."))


def pod_context(spec: Obj) -> Errors:
    """The security context of a pod, with the fields of its spec that Go keeps there."""
    context = spec.get("securityContext")
    if context is None:
        return NONE
    errors = list(_POD_IDS(context))
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        detail = "ShareProcessNamespace and HostPID cannot both be enabled"
        errors.append(invalid_value("shareProcessNamespace", True, detail))
    if context.get("sysctls"):
        errors += _sysctls(spec)
    return [*errors, *_POD_POLICIES(context)]


_POD_IDS = record(("fsGroup", group_id), *_users, ("supplementalGroups", each(group_id)))
_POD_POLICIES = record(
    ("fsGroupChangePolicy", one_of("Always", "OnRootMismatch")),
    ("seccompProfile", _seccomp),
    ("windowsOptions", _windows),
    ("appArmorProfile", _app_armor),
    ("supplementalGroupsPolicy", one_of("Merge", "Strict")),
    ("seLinuxChangePolicy", one_of("Recursive")),
)

_WINDOWS_TOLD = "cannot be set for a windows pod"
_NO_POD_FIELDS = ("appArmorProfile", "seLinuxOptions", "hostUsers", "hostPID", "hostIPC", "seccompProfile", "fsGroup",
                  "fsGroupChangePolicy", "sysctls", "shareProcessNamespace", "runAsUser", "runAsGroup",
                  "supplementalGroups", "supplementalGroupsPolicy", "seLinuxChangePolicy")  # fmt: skip
_OF_SPEC = ("hostUsers", "hostPID", "hostIPC", "shareProcessNamespace")
_NO_CONTAINER_FIELDS = ("appArmorProfile", "seLinuxOptions", "seccompProfile", "capabilities", "readOnlyRootFilesystem",
                        "privileged", "allowPrivilegeEscalation", "procMount", "runAsUser", "runAsGroup")  # fmt: skip


def for_linux(spec: Obj, containers: list[tuple[str, Obj]]) -> Errors:
    """Nothing of Windows in a pod for Linux."""
    detail = "windows options cannot be set for a linux pod"
    errors = (
        [forbidden_field("securityContext.windowsOptions", detail)] if _has(spec, "windowsOptions") else []
    )
    return [
        *errors,
        *(
            forbidden_field(f"{path}.securityContext.windowsOptions", detail)
            for path, each in containers
            if _has(each, "windowsOptions")
        ),
    ]


def for_windows(spec: Obj, containers: list[tuple[str, Obj]]) -> Errors:
    """Nothing of Linux in a pod for Windows."""
    errors: list[FieldError] = []
    for field in _NO_POD_FIELDS:
        if field in _OF_SPEC and spec.get(field) is not None:
            errors.append(forbidden_field(field, _WINDOWS_TOLD))
        elif field not in _OF_SPEC and _has(spec, field):
            errors.append(forbidden_field(f"securityContext.{field}", _WINDOWS_TOLD))
    for path, container in containers:
        for field in _NO_CONTAINER_FIELDS:
            if _has(container, field):
                errors.append(forbidden_field(f"{path}.securityContext.{field}", _WINDOWS_TOLD))
    return errors


def host_process(spec: Obj, containers: list[tuple[str, Obj]]) -> Errors:
    """Windows' host processes: all containers or none, on the host's network."""
    of_pod = _host_process(spec)
    errors: list[FieldError] = []
    count = 0
    for path, container in containers:
        own = _host_process(container)
        if of_pod is not None and own is not None and own != of_pod:
            detail = (
                f"pod hostProcess value must be identical if both are specified, was {str(of_pod).lower()}"
            )
            errors.append(invalid_value(f"{path}.securityContext.windowsOptions.hostProcess", own, detail))
        count += bool(of_pod if own is None else own)
    if count and count != len(containers):
        detail = (
            "If pod contains any hostProcess containers then all containers must be HostProcess containers"
        )
        errors.append(invalid_value("", "", detail))
    if count and not spec.get("hostNetwork"):
        detail = "hostNetwork must be true if pod contains any hostProcess containers"
        errors.append(invalid_value("hostNetwork", False, detail))
    return errors


def _has(holder: Obj, field: str) -> bool:
    return part(holder, "securityContext").get(field) is not None


def _host_process(holder: Obj) -> Any:
    return (part(part(holder, "securityContext"), "windowsOptions")).get("hostProcess")
