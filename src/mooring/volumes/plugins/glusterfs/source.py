"""What a GlusterFS volume, its Endpoints and a client's log say: checked, or refused. Pure.

The mount program of GlusterFS is a shell script that splits its words anew: at blanks and commas, at the last
colon of the source, and where a shell finds a pattern or a backslash. So what reaches it has none of these.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address

from mooring.kube.objects import Endpoints, GlusterfsVolumeSource
from mooring.volumes.errors import InvalidSpec, VolumeError
from mooring.volumes.plugins.network_mount import checked_options
from mooring.volumes.spec import VolumeSpec

MOST_SERVERS = 16
LONGEST_PATH = 1024
LINE_CHARACTERS = 240

_PATH = re.compile(r"/?\w[-\w.+=@%~]*(/[-\w.+=@%~]+)*/?", re.ASCII)
_OPTION = re.compile(r"[-\w.+=@%~:/,]+", re.ASCII)
_PLAIN = re.compile(r"/[-\w.+=@%~:/]+", re.ASCII)


@dataclass(frozen=True)
class Share:
    """What a spec names, checked. `path` is a volume's name, with the path of a directory in it perhaps."""

    endpoints: str
    namespace: str
    path: str
    read_only: bool


def written(spec: VolumeSpec) -> GlusterfsVolumeSource | None:
    """The `glusterfs` source of the spec, unchecked."""
    return spec.definition.glusterfs if spec.definition is not None else None


def share(spec: VolumeSpec, pod_namespace: str) -> Share:
    """Its Endpoints are the pod's namespace's, unless its PersistentVolume says another. Raises InvalidSpec
    for a spec that is not GlusterFS's, or that cannot be meant."""
    source = written(spec)
    if source is None or not source.endpoints:
        raise InvalidSpec(f"volume {spec.name} has no glusterfs source with endpoints")
    path = source.path
    if len(path) > LONGEST_PATH or not _PATH.fullmatch(path) or {".", ".."} & set(path.split("/")):
        raise InvalidSpec(
            f"glusterfs.path {path[:100]!a} of volume {spec.name} must be the name of a volume of the servers, or "
            f"NAME/DIRECTORY, of letters, digits and -_.+=@%~: correct it"
        )
    elsewhere = source.endpoints_namespace if spec.persistent_volume is not None else None
    return Share(source.endpoints, elsewhere or pod_namespace, path, source.read_only or spec.read_only)


def user_options(spec: VolumeSpec) -> list[str]:
    """The volume's mountOptions. Raises InvalidSpec for one that the mount program would split."""
    return checked_options(spec, pattern=_OPTION)


def servers(found: Endpoints, name: str) -> list[str]:
    """The ready addresses, each once, the first `MOST_SERVERS`. `name` is that of the Endpoints. Raises
    VolumeError if there is none, or one that is no address."""
    listed = dict.fromkeys(address.ip for subset in found.subsets for address in subset.addresses)
    addresses = [_address(text, name) for text in list(listed)[:MOST_SERVERS]]
    if not addresses:
        raise VolumeError(f"Endpoints {name} have no ready address: write the GlusterFS servers' there")
    return addresses


def _address(text: str, name: str) -> str:
    try:
        if "%" in text:  # of a link of this node alone
            raise ValueError(text)
        return str(ip_address(text))
    except ValueError:
        raise VolumeError(
            f"Endpoints {name}: {text[:50]!a} is not the IP address of a GlusterFS server: correct it"
        ) from None


def mount_words(
    of: Share, addresses: Sequence[str], log_file: str, directory: str, options: Sequence[str]
) -> list[str]:
    """The arguments of `mount`, but for the directory. The volume's own options come after ours, as the last
    of a kind counts, and `ro` after all. `auto_unmount` is not among them, which upstream sets: a client that
    dies would take the mount away, and the pod's next container would write to the node's own disk. Raises
    VolumeError for a directory of this node that the mount program would split."""
    for path in (log_file, directory):
        if not _PLAIN.fullmatch(path):
            raise VolumeError(
                f"GlusterFS cannot be mounted at {path[:200]!a}: the agent's directory, and the volume's name, must be "
                f"of letters, digits and -_.+=@%~:"
            )
    ours = [f"log-file={log_file}", "log-level=ERROR"]
    if len(addresses) > 1:
        ours.append("backup-volfile-servers=" + ":".join(map(_bracketed, addresses[1:])))
    all_options = [*ours, *options, *(("ro",) if of.read_only else ())]
    return ["-t", "glusterfs", "-o", ",".join(all_options), "--", f"{addresses[0]}:{of.path}"]


def logs_elsewhere(options: Sequence[str]) -> bool:
    """Whether these options take the client's log away from us."""
    return any(each.startswith("log-file=") for each in ",".join(options).split(","))


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def last_line(log: bytes) -> str:
    """What the last line of a client's log says, without its time; "" for a log that says nothing. What a
    server has sent may be in it."""
    lines = [line for line in log.decode(errors="replace").splitlines() if line.strip()]
    if not lines:
        return ""
    said = re.sub(r"^\[[^\]]{0,40}\] ", "", lines[-1])
    return "".join(each if each.isprintable() else "?" for each in said)[:LINE_CHARACTERS]
