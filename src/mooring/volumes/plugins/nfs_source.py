"""What an `nfs` source means: a checked server and path, and options of `mount`; or a refusal. Pure."""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address

from mooring.kube.objects import NFSVolumeSource
from mooring.volumes.errors import InvalidSpec
from mooring.volumes.plugins.network_mount import checked_options
from mooring.volumes.spec import VolumeSpec

PLUGIN_NAME = "kubernetes.io/nfs"
LONGEST_PATH = 4096

_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,251}[A-Za-z0-9])?", re.ASCII)


@dataclass(frozen=True)
class Export:
    """A directory of a server, checked. Its text is what `mount` takes."""

    server: str
    path: str
    read_only: bool

    def __str__(self) -> str:
        return f"[{self.server}]:{self.path}" if ":" in self.server else f"{self.server}:{self.path}"


def written(spec: VolumeSpec) -> NFSVolumeSource | None:
    """The `nfs` source of the spec, unchecked."""
    return spec.definition.nfs if spec.definition is not None else None


def export(spec: VolumeSpec) -> Export:
    """Raises InvalidSpec for a spec that is not NFS's, or that cannot be meant."""
    source = written(spec)
    if source is None:
        raise InvalidSpec(f"volume {spec.name} has no nfs source")
    read_only = source.read_only or spec.read_only
    return Export(_server(source.server, spec.name), _path(source.path, spec.name), read_only)


def _server(text: str, name: str) -> str:
    """A link-local address is of no use: `%` leads to other text."""
    bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    with contextlib.suppress(ValueError):
        found = ip_address(bare)
        if "%" not in bare and (bare == text or isinstance(found, IPv6Address)):
            return str(found)
    if not _NAME.fullmatch(text):
        raise InvalidSpec(
            f"nfs.server {text[:100]!a} of volume {name} is neither a host name nor an address: correct it"
        )
    return text


def _path(text: str, name: str) -> str:
    if (
        not text.startswith("/")
        or ".." in text.split("/")
        or len(os.fsencode(text)) > LONGEST_PATH
        or not text.isprintable()
    ):
        raise InvalidSpec(
            f"nfs.path {text[:100]!a} of volume {name} must be absolute, printable and without '..': correct it"
        )
    return text


def mount_options(spec: VolumeSpec, of: Export) -> list[str]:
    """Raises InvalidSpec for an option that cannot be one, and for `bg`: then `mount` says that it is done
    before it is, and pods would write to the node's own disk."""
    return [*checked_options(spec, refused=("bg",)), *(("ro",) if of.read_only else ())]
