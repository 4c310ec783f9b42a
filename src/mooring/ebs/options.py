"""What the driver can be told when it starts: upstream's flags, and a few of its own. Pure.

Names and defaults are those of upstream's v1.64 (its options documentation), save that `--batching` is on,
that `--extra-volume-tags` has an effect, and that what cannot work is refused. The driver makes no call to
Kubernetes, so flags that are about such calls have no use here: the harmless ones are accepted and said in
the log, the others are refused.
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
"""Words that upstream has and this driver has not, and why."""

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
"""By the names of `Options`' fields; `--deprecated-metrics` and what is about logs and sockets is for all
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
    """One process of the driver. Fields are named as their flags."""

    mode: Mode = Mode.ALL
    endpoint: tuple[str, ...] = (DEFAULT_ENDPOINT,)
    http_endpoint: str = ""
    """HOST:PORT for /metrics and /healthz; empty: not served."""
    metrics_cert_file: str = ""
    metrics_key_file: str = ""
    region: str = ""
    """Empty: the instance's own, from its metadata."""
    ec2_endpoint: str = ""
    """Of another EC2 than Amazon's; empty: the region's own."""
    metadata_endpoint: str = METADATA_ENDPOINT
    """Of the instance metadata service; empty: it is not to be asked."""

    user_agent_extra: str = ""
    aws_sdk_debug_log: bool = False
    extra_tags: Mapping[str, str] = field(default_factory=dict[str, str])
    """On volumes and snapshots."""
    extra_volume_tags: Mapping[str, str] = field(default_factory=dict[str, str])
    """On volumes only; they go before `extra_tags`."""
    k8s_tag_cluster_id: str = ""
    warn_on_invalid_tag: bool = False
    batching: bool = True
    """Questions of the same kind are put to EC2 in one call."""
    pacing: bool = True
    """Calls are made no faster than EC2's quotas allow."""
    modify_volume_request_handler_timeout: float = 2.0
    """Seconds for which changes to one volume are gathered, to be asked of EC2 as one."""
    settle_time: float = SETTLE_S
    """Seconds by which EC2's descriptions may be behind; 0 for an endpoint that always shows what is
    (`settling`)."""

    volume_attach_limit: int = -1
    """Volumes that this node may have; below 0: from the instance's type."""
    reserved_volume_attachments: int = -1
    """Attachments that are none of this driver's, the root device's included; below 0: they are counted."""
    legacy_xfs: bool = False
    """New xfs file systems have none of the features that older kernels cannot mount."""
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
    """Why the driver cannot be started so, in words; empty if it can. `given` are the fields whose flags were
    given."""
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
    """`key=value,key=value`. Raises ValueError. Whether EC2 takes them is looked at where they are
    written."""
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
    """Seconds, from what Go writes: `2s`, `500ms`, `1m30s`, `0`. Raises ValueError."""
    parts = _PART.findall(text)
    if text == "0":
        return 0.0
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text!r} is no duration: it has the form 2s, 500ms or 1m30s")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


SOURCES = frozenset({"imds", "kubernetes", "metadata-labeler"})


def parse_sources(text: str) -> tuple[bool, list[str]]:
    """Of `--metadata-sources`: whether the instance metadata service may be asked, and the sources that have
    no use here. Raises ValueError."""
    sources = [part.strip() for part in text.split(",")]
    if unknown := [source for source in sources if source not in SOURCES]:
        raise ValueError(f"unknown source {unknown[0]!r}: there are {', '.join(sorted(SOURCES))}")
    return "imds" in sources, [source for source in sources if source != "imds"]


def parse_host_port(text: str) -> tuple[str, int]:
    """`HOST:PORT`, `:PORT` for all addresses, `[IPv6]:PORT`. Raises ValueError."""
    host, colon, port = text.rpartition(":")
    if not (colon and port.isascii() and port.isdecimal() and int(port) < 65536):
        raise ValueError(f"{text!r} has not the form HOST:PORT")
    return host.removeprefix("[").removesuffix("]") or "0.0.0.0", int(port)  # nosec B104 # ":PORT", as upstream's flag


def ec2_endpoint(environment: Mapping[str, str]) -> str:
    """Where EC2 is, if not at Amazon: upstream's variable, then those of Amazon's own tools."""
    names = ("AWS_EC2_ENDPOINT", "AWS_ENDPOINT_URL_EC2", "AWS_ENDPOINT_URL")
    return next((environment[name] for name in names if environment.get(name)), "")


def region(environment: Mapping[str, str]) -> str:
    """The region that the environment names; empty if it names none."""
    return environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION", "")


def metadata_endpoint(environment: Mapping[str, str]) -> str:
    """Where the instance metadata service is, as for Amazon's own tools; empty if it must not be asked."""
    if environment.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true":
        return ""
    ipv6 = environment.get("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE", "").lower() == "ipv6"
    default = METADATA_ENDPOINT_IPV6 if ipv6 else METADATA_ENDPOINT
    return (environment.get("AWS_EC2_METADATA_SERVICE_ENDPOINT") or default).rstrip("/")
