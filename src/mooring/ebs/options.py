"""The driver's flags: upstream's, and a few of its own. Pure.

Names and defaults are those of upstream's v1.64 (its options documentation), except that `--batching` is on,
that `--extra-volume-tags` has an effect, and that contradictory flags are refused. The driver makes no call
to Kubernetes, so flags about such calls have no effect: harmless ones are accepted with a line in the log,
the others are refused.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from mooring.ebs.ec2.settling import SETTLE_S

DRIVER_NAME = "ebs.csi.aws.com"
DEFAULT_ENDPOINT = "unix:///tmp/csi.sock"
METADATA_ENDPOINT = "http://169.254.169.254"
METADATA_ENDPOINT_IPV6 = "http://[fd00:ec2::254]"


class Mode(StrEnum):
    """Which services a process has: the first word of the command."""

    ALL = "all"
    CONTROLLER = "controller"
    NODE = "node"


OTHER_MODES: Mapping[str, str] = {
    "metadataLabeler": "labels of nodes are Kubernetes' own matter: the node service counts by itself",
    "pre-stop-hook": "it asks Kubernetes, which this driver never does: drain the node instead",
}
"""Upstream's modes that this driver does not have, and why."""

CONTROLLER_FLAGS = frozenset(
    {
        "user_agent_extra",
        "aws_sdk_debug_log",
        "extra_tags",
        "extra_volume_tags",
        "k8s_tag_cluster_id",
        "warn_on_invalid_tag",
        "batching",
        "pacing",
        "modify_volume_request_handler_timeout",
        "settle_time",
    }
)
"""By the names of `Options`' fields. `--deprecated-metrics` and the flags about logs and sockets are for all
modes."""

NODE_FLAGS = frozenset(
    {
        "volume_attach_limit",
        "reserved_volume_attachments",
        "legacy_xfs",
        "csi_mount_point_prefix",
        "allow_path",
        "device_dir",
        "instance_id",
        "instance_type",
        "zone",
    }
)


@dataclass(frozen=True)
class Options:
    """The options of one process. Fields are named as their flags."""

    mode: Mode = Mode.ALL
    endpoint: tuple[str, ...] = (DEFAULT_ENDPOINT,)
    http_endpoint: str = ""
    """HOST:PORT for /metrics and /healthz; empty: not served."""
    metrics_cert_file: str = ""
    metrics_key_file: str = ""
    region: str = ""
    """Empty: the instance's own, from its metadata."""
    ec2_endpoint: str = ""
    """URL of an EC2 endpoint other than Amazon's; empty: the region's own."""
    metadata_endpoint: str = METADATA_ENDPOINT
    """URL of the instance metadata service; empty: the driver must not call it."""

    user_agent_extra: str = ""
    aws_sdk_debug_log: bool = False
    extra_tags: Mapping[str, str] = field(default_factory=dict[str, str])
    """On volumes and snapshots."""
    extra_volume_tags: Mapping[str, str] = field(default_factory=dict[str, str])
    """On volumes only; they take precedence over `extra_tags`."""
    k8s_tag_cluster_id: str = ""
    warn_on_invalid_tag: bool = False
    batching: bool = True
    """Whether questions of one kind are put to EC2 in one call."""
    pacing: bool = True
    """Whether calls are made no faster than EC2's quotas allow."""
    modify_volume_request_handler_timeout: float = 2.0
    """Seconds for which changes of one volume are gathered into one ModifyVolume."""
    settle_time: float = SETTLE_S
    """Seconds by which EC2's descriptions may lag; 0 for a strongly consistent endpoint (`settling`)."""

    volume_attach_limit: int = -1
    """The number of volumes that this node may have; below 0: from the instance's type."""
    reserved_volume_attachments: int = -1
    """The number of attachments of others, the root device's included; below 0: they are counted."""
    legacy_xfs: bool = False
    """Whether new xfs file systems lack the features that older kernels cannot mount."""
    csi_mount_point_prefix: str = ""
    allow_path: tuple[Path, ...] = (Path("/var/lib/kubelet"),)
    """Directories below which volumes may be mounted."""
    device_dir: Path = Path("/dev")
    """Where the instance's devices are."""
    instance_id: str = ""
    instance_type: str = ""
    zone: str = ""

    @property
    def has_controller(self) -> bool:
        return self.mode is not Mode.NODE

    @property
    def has_node(self) -> bool:
        return self.mode is not Mode.CONTROLLER

    @property
    def volume_tags(self) -> dict[str, str]:
        """The operator's tags on volumes."""
        return {**self.extra_tags, **self.extra_volume_tags}


def refusals(options: Options, given: Collection[str]) -> list[str]:
    """Why the driver cannot start with these options; empty if it can. `given`: the fields whose flags the
    operator gave."""
    problems = [
        f"{flag(name)} has no meaning in mode {options.mode}"
        for name in sorted(_foreign(options.mode, given))
    ]
    if options.volume_attach_limit >= 0 and options.reserved_volume_attachments >= 0:
        problems.append(
            "--volume-attach-limit and --reserved-volume-attachments exclude each other: give one of them"
        )
    if options.modify_volume_request_handler_timeout <= 0:
        problems.append("--modify-volume-request-handler-timeout must be longer than 0")
    if bool(options.metrics_cert_file) != bool(options.metrics_key_file):
        problems.append("--metrics-cert-file and --metrics-key-file need each other")
    if options.metrics_cert_file and not options.http_endpoint:
        problems.append("--metrics-cert-file needs --http-endpoint, or there is nothing to encrypt")
    if any(not path.is_absolute() for path in (options.device_dir, *options.allow_path)):
        problems.append("--device-dir and --allow-path must be absolute")
    return problems


def flag(field_name: str) -> str:
    """The flag of a field of `Options`."""
    return "--" + field_name.replace("_", "-")


def _foreign(mode: Mode, given: Collection[str]) -> set[str]:
    other = {Mode.ALL: frozenset[str](), Mode.CONTROLLER: NODE_FLAGS, Mode.NODE: CONTROLLER_FLAGS}[mode]
    return set(given) & other


def parse_tags(text: str) -> dict[str, str]:
    """The tags of `key=value,key=value`. Raises ValueError. `TagPolicy` checks whether EC2 accepts them."""
    tags: dict[str, str] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        key, equals, value = (part.strip() for part in entry.partition("="))
        if not (key and equals):
            raise ValueError(f"{entry!r} is no tag: it has the form key=value,key=value")
        tags[key] = value
    return tags


_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(h|ms|us|µs|ns|m|s)")


def parse_duration(text: str) -> float:
    """The seconds of a duration in Go's notation: `2s`, `500ms`, `1m30s`, `0`. Raises ValueError."""
    parts = _PART.findall(text)
    if text == "0":
        return 0.0
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text!r} is no duration: it has the form 2s, 500ms or 1m30s")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


SOURCES = frozenset({"imds", "kubernetes", "metadata-labeler"})


def parse_sources(text: str) -> tuple[bool, list[str]]:
    """The value of `--metadata-sources`: whether the driver may call the instance metadata service, and the
    sources that have no effect. Raises ValueError."""
    sources = [part.strip() for part in text.split(",")]
    if unknown := [source for source in sources if source not in SOURCES]:
        raise ValueError(f"unknown source {unknown[0]!r}: there are {', '.join(sorted(SOURCES))}")
    return "imds" in sources, [source for source in sources if source != "imds"]


def parse_host_port(text: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT`, `:PORT` (all addresses) or `[IPv6]:PORT`. Raises ValueError."""
    host, colon, port = text.rpartition(":")
    if not (colon and port.isascii() and port.isdecimal() and int(port) < 65536):
        raise ValueError(f"{text!r} has not the form HOST:PORT")
    return host.removeprefix("[").removesuffix("]") or "0.0.0.0", int(port)  # nosec B104 # ":PORT", as upstream's flag


def ec2_endpoint(environment: Mapping[str, str]) -> str:
    """The URL of an EC2 other than Amazon's, by upstream's variable or by those of Amazon's own tools; empty
    if none is set."""
    names = ("AWS_EC2_ENDPOINT", "AWS_ENDPOINT_URL_EC2", "AWS_ENDPOINT_URL")
    return next((environment[name] for name in names if environment.get(name)), "")


def region(environment: Mapping[str, str]) -> str:
    """The region that the environment names; empty if it names none."""
    return environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION", "")


def metadata_endpoint(environment: Mapping[str, str]) -> str:
    """The URL of the instance metadata service, by the variables of Amazon's own tools; empty if these
    disable it."""
    if environment.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true":
        return ""
    ipv6 = environment.get("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE", "").lower() == "ipv6"
    default = METADATA_ENDPOINT_IPV6 if ipv6 else METADATA_ENDPOINT
    return (environment.get("AWS_EC2_METADATA_SERVICE_ENDPOINT") or default).rstrip("/")
