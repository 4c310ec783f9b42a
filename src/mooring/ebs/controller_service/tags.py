"""The tags on volumes and snapshots: those by which the driver finds its own, and those that an operator and
a class add. Pure.

All tags of a resource are part of the call that creates it, so it never lacks an owner, and an IAM policy can
require them. A class's tags take precedence over the operator's (`--extra-tags`), and these over the
driver's. A class or an operator cannot use the driver's own keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import structlog

from mooring.csi.errors import Code, CsiError
from mooring.ebs.ec2.records import NAME_TAG, SNAPSHOT_NAME_TAG

CLUSTER_TAG = "ebs.csi.aws.com/cluster"
CLUSTER_NAME_TAG = "ebs.csi.aws.com/cluster-name"
IOPS_PER_GB_TAG = "ebs.csi.aws.com/IOPSPerGb"
AUTO_IOPS_TAG = "ebs.csi.aws.com/AllowAutoIOPSIncreaseOnModify"
OURS = {CLUSTER_TAG: "true"}
"""On everything that the driver creates."""

METADATA_TAGS: Mapping[str, str] = {
    "csi.storage.k8s.io/pvc/name": "kubernetes.io/created-for/pvc/name",
    "csi.storage.k8s.io/pvc/namespace": "kubernetes.io/created-for/pvc/namespace",
    "csi.storage.k8s.io/pv/name": "kubernetes.io/created-for/pv/name",
}
"""The tag for each parameter that upstream's provisioner adds with --extra-create-metadata."""

SPECIFICATION_PREFIX = "tagSpecification"
"""Prefix of a class's parameters: `tagSpecification_1: key=value`."""
DELETION_PREFIX = "tagDeletion"
"""Prefix of a VolumeAttributesClass's parameters: `tagDeletion_1: key`."""

_RESERVED = frozenset({NAME_TAG, SNAPSHOT_NAME_TAG, CLUSTER_NAME_TAG})
_RESERVED_PREFIXES = ("kubernetes.io", "ebs.csi.aws.com/")
KEY_CHARACTERS, VALUE_CHARACTERS, MOST = 128, 256, 50

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class TagPolicy:
    """The operator's settings for tags."""

    volumes: Mapping[str, str] = field(default_factory=dict[str, str])
    snapshots: Mapping[str, str] = field(default_factory=dict[str, str])
    cluster_id: str = ""
    warn_on_invalid: bool = False
    """Whether an invalid tag is left out with a warning in the log, instead of failing the request."""

    def __post_init__(self) -> None:
        """Raises ValueError for an invalid tag of the operator's, unless `warn_on_invalid`."""
        if not self.warn_on_invalid:
            for tags in (self.volumes, self.snapshots):
                if problems := [problem for key, value in tags.items() if (problem := _problem(key, value))]:
                    raise ValueError("; ".join(problems))

    def of_volume(
        self, name: str, metadata: Mapping[str, str], requested: Mapping[str, str]
    ) -> dict[str, str]:
        """The tags of a new volume; `metadata`: tags of the driver itself, `requested`: those of its class.
        Raises CsiError, INVALID_ARGUMENT."""
        cluster = {"KubernetesCluster": self.cluster_id} if self.cluster_id else {}
        return self._all(
            {NAME_TAG: name, **metadata}, {**self._cluster(name), **cluster}, self.volumes, requested
        )

    def of_snapshot(self, name: str, requested: Mapping[str, str]) -> dict[str, str]:
        """The tags of a new snapshot. Raises CsiError, INVALID_ARGUMENT."""
        return self._all({SNAPSHOT_NAME_TAG: name}, self._cluster(name), self.snapshots, requested)

    def checked(self, requested: Mapping[str, str]) -> dict[str, str]:
        """The valid ones of a class's tags. Raises CsiError, INVALID_ARGUMENT, for an invalid one, unless
        `warn_on_invalid`."""
        problems = {key: problem for key, value in requested.items() if (problem := _problem(key, value))}
        if problems and not self.warn_on_invalid:
            raise CsiError(Code.INVALID_ARGUMENT, "; ".join(problems.values()))
        for problem in problems.values():
            _log.warning("a tag is left out", problem=problem)
        return {key: value for key, value in requested.items() if key not in problems}

    def listed(self) -> dict[str, str]:
        """The tags by which this cluster's resources are found."""
        return {**OURS, **({CLUSTER_NAME_TAG: self.cluster_id} if self.cluster_id else {})}

    def _cluster(self, name: str) -> dict[str, str]:
        if not self.cluster_id:
            return {}
        return {
            f"kubernetes.io/cluster/{self.cluster_id}": "owned",
            "Name": f"{self.cluster_id}-dynamic-{name}",
            CLUSTER_NAME_TAG: self.cluster_id,
        }

    def _all(
        self,
        own: Mapping[str, str],
        cluster: Mapping[str, str],
        operators: Mapping[str, str],
        requested: Mapping[str, str],
    ) -> dict[str, str]:
        given = {**self.checked(operators), **self.checked(requested)}
        tags = {key: value[:VALUE_CHARACTERS] for key, value in {**OURS, **own, **cluster}.items()} | given
        if len(tags) > MOST:
            raise CsiError(
                Code.INVALID_ARGUMENT, f"{len(tags)} tags, and EC2 has room for {MOST}: ask for fewer"
            )
        return dict(sorted(tags.items()))


def specified(parameters: Mapping[str, str]) -> dict[str, str]:
    """The tags in parameters `tagSpecification...: key=value`. Raises CsiError, INVALID_ARGUMENT."""
    tags: dict[str, str] = {}
    for name, text in sorted(parameters.items()):
        if name.startswith(SPECIFICATION_PREFIX):
            key, equals, value = text.partition("=")
            if not (key and equals):
                raise CsiError(Code.INVALID_ARGUMENT, f"{name} {text!r} is no tag: it has the form key=value")
            if "{{" in value:
                raise CsiError(
                    Code.INVALID_ARGUMENT,
                    f"{name}: this driver does not fill in templates; give the value as it is to be",
                )
            tags[key] = value
    return tags


def deleted(parameters: Mapping[str, str]) -> tuple[str, ...]:
    """The keys that parameters `tagDeletion...: key` name. Raises CsiError, INVALID_ARGUMENT, for the
    driver's own."""
    keys = tuple(sorted({key for name, key in parameters.items() if name.startswith(DELETION_PREFIX)}))
    if problems := [problem for key in keys if (problem := _problem(key, ""))]:
        raise CsiError(Code.INVALID_ARGUMENT, "; ".join(problems))
    return keys


def tag_list(tags: Mapping[str, str]) -> list[dict[str, str]]:
    """Tags as a request has them, sorted: the order counts for client tokens."""
    return [{"Key": key, "Value": tags[key]} for key in sorted(tags)]


def specification(resource: str, tags: Mapping[str, str]) -> list[dict[str, object]]:
    """TagSpecifications of a request that creates a resource ("volume")."""
    return [{"ResourceType": resource, "Tags": tag_list(tags)}]


def _problem(key: str, value: str) -> str:
    """Why the tag is invalid; empty if it is valid."""
    if not key:
        return "a tag's key is empty"
    if len(key) > KEY_CHARACTERS:
        return f"tag {key[:20]}...: a key has at most {KEY_CHARACTERS} characters"
    if len(value) > VALUE_CHARACTERS:
        return f"tag {key}: a value has at most {VALUE_CHARACTERS} characters"
    if key.lower().startswith("aws:"):
        return f"tag {key}: keys that begin with aws: are Amazon's"
    if key in _RESERVED or key.startswith(_RESERVED_PREFIXES):
        return f"tag {key}: the key is the driver's own"
    return ""
