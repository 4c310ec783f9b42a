"""The options that a FlexVolume driver gets with a call, as one JSON object.

Pure. Keys, values and their order are upstream's (`pkg/volume/flexvolume`). Guarantee: what the author of a
volume writes cannot take the place of what Kubernetes says: keys of the namespaces kubernetes.io and k8s.io
are refused, also from an API server that lets them pass.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from mooring.kube.objects import FlexVolumeSource, Pod, SecretReference
from mooring.volumes.errors import InvalidSpec
from mooring.volumes.spec import VolumeSpec

FS_TYPE = "kubernetes.io/fsType"
READ_WRITE = "kubernetes.io/readwrite"
NAME = "kubernetes.io/pvOrVolumeName"
FS_GROUP = "kubernetes.io/mounterArgs.FsGroup"
SECRET = "kubernetes.io/secret/"
"""The prefix of the keys of a Secret."""
POD_NAME = "kubernetes.io/pod.name"
POD_NAMESPACE = "kubernetes.io/pod.namespace"
POD_UID = "kubernetes.io/pod.uid"
SERVICE_ACCOUNT = "kubernetes.io/serviceAccount.name"

LONGEST_ARGUMENT = 128 * 1024 - 1
"""Bytes of one argument of a program, on Linux."""
_ESCAPES = str.maketrans({char: f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"})


def flex_source(spec: VolumeSpec) -> FlexVolumeSource | None:
    """The flexVolume of the spec, whosever it is."""
    return spec.definition.flex_volume if spec.definition is not None else None


def source_of(spec: VolumeSpec) -> FlexVolumeSource:
    """Raises InvalidSpec."""
    source = flex_source(spec)
    if source is None:
        raise InvalidSpec(f"volume {spec.name} is not a flexVolume")
    return source


def is_read_only(spec: VolumeSpec) -> bool:
    """As upstream has it: a pod's own volume says so itself, of another one its claim's user does."""
    return spec.read_only if spec.persistent_volume is not None else source_of(spec).read_only


def secret_of(spec: VolumeSpec, namespace: str) -> SecretReference | None:
    """The Secret that the driver gets, of the pod's namespace unless a PersistentVolume names another."""
    reference = source_of(spec).secret_ref
    if reference is None or not reference.name:
        return None
    named = reference.namespace if spec.persistent_volume is not None else ""
    return SecretReference(name=reference.name, namespace=named or namespace)


def pod_options(pod: Pod, fs_group: int | None) -> dict[str, str]:
    """What `mount` says of the pod."""
    group = {} if fs_group is None else {FS_GROUP: str(fs_group)}
    return {
        POD_NAME: pod.metadata.name,
        POD_NAMESPACE: pod.metadata.namespace,
        POD_UID: pod.uid,
        SERVICE_ACCOUNT: pod.spec.service_account_name,
        **group,
    }


def options(spec: VolumeSpec, extra: Mapping[str, str] | None = None) -> str:
    """The argument. Raises InvalidSpec for reserved keys, and for more than a program can be given."""
    source = source_of(spec)
    if reserved := sorted(filter(_is_reserved, source.options)):
        raise InvalidSpec(
            f"flexVolume.options of volume {spec.name} has {', '.join(reserved)[:200]!a}: keys of kubernetes.io and "
            "k8s.io are reserved, take others"
        )
    given = {
        FS_TYPE: source.fs_type,
        READ_WRITE: "ro" if is_read_only(spec) else "rw",
        NAME: spec.name,
        **(extra or {}),
        **source.options,
    }
    written = json.dumps(given, sort_keys=True, ensure_ascii=False, separators=(",", ":")).translate(_ESCAPES)
    if len(written.encode(errors="surrogatepass")) > LONGEST_ARGUMENT:
        raise InvalidSpec(
            f"the options of volume {spec.name}, with its Secret, are longer than {LONGEST_ARGUMENT} bytes, which a "
            "driver cannot be given: shorten them"
        )
    return written


def _is_reserved(key: str) -> bool:
    domain = "." + key.partition("/")[0].lower()
    return domain.endswith((".kubernetes.io", ".k8s.io"))
