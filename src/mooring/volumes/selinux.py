"""The SELinux label of a volume: given to all its files at once by the mount option `context`, as upstream
does for volumes of one pod, instead of file by file.

It is given where all of this holds: the node's kernel has SELinux with a policy; the volume is a
PersistentVolume whose only access mode is ReadWriteOncePod, so that no other pod may want another label; its
plugin says that its mounts take the option; and the pod says a level, for all its containers the same. Pure,
but for `has_selinux`.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import msgspec

from mooring.kube.objects import Pod
from mooring.volumes.exclusivity import is_one_pod_only
from mooring.volumes.spec import VolumeSpec

USER, ROLE, TYPE = "system_u", "object_r", "container_file_t"
"""What a container's files have that says nothing else, as in the policy of container-selinux."""
SELINUX = Path("/sys/fs/selinux")

_LEVEL = re.compile(r"s[0-9]{1,4}([-:,.sc0-9]{0,200})", re.ASCII)


def has_selinux(root: Path = SELINUX) -> bool:
    """Whether this node's kernel has it, with a policy that is loaded."""
    try:
        return bool(os.listdir(root / "class"))  # of the policy: before one is loaded there is none
    except OSError:
        return False


def label_of(pod: Pod) -> str:
    """The label of the pod's files; "" if it says none, if its containers differ, or if one says what cannot
    be a label."""
    of_pod = pod.spec.security_context.se_linux_options if pod.spec.security_context else None
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    said = {_label(_options(each.security_context, of_pod)) for each in containers}
    return said.pop() if len(said) == 1 else ""


def _options(context: Any, of_pod: dict[str, Any] | None) -> dict[str, Any]:
    return (context.se_linux_options if context is not None else None) or of_pod or {}


def _label(options: dict[str, Any]) -> str:
    """Of a process's label only the level is its files', too: that is what keeps one pod from another's."""
    level = str(options.get("level") or "")
    return f"{USER}:{ROLE}:{TYPE}:{level}" if _LEVEL.fullmatch(level) else ""


def labelled(spec: VolumeSpec, pod: Pod) -> VolumeSpec:
    """The spec with the label among its mount options, where the volume is one pod's and the pod says one."""
    pv, label = spec.persistent_volume, label_of(pod)
    if pv is None or spec.block or not label or not is_one_pod_only(spec):
        return spec
    given = {each.partition("=")[0] for option in spec.mount_options for each in option.split(",")}
    if "context" in given:
        return spec
    options = (*spec.mount_options, f'context="{label}"')
    changed = msgspec.structs.replace(pv, spec=msgspec.structs.replace(pv.spec, mount_options=options))
    return msgspec.structs.replace(spec, persistent_volume=changed)
