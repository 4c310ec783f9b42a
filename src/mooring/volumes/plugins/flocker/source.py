"""What a `flocker` source and the answers of Flocker's control service mean: checked values. Pure.

Guarantee: an identifier that leaves here is a UUID, so that it leads nowhere else in a path or a URL.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from uuid import UUID

import msgspec

from mooring.kube.objects import FlockerVolumeSource
from mooring.volumes.errors import InvalidSpec, PluginError, VolumeError
from mooring.volumes.spec import VolumeSpec

LONGEST_NAME = 256

_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", re.ASCII)
_SERVICE = re.compile(
    r"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9]([-A-Za-z0-9_.]{0,251}[A-Za-z0-9])?):[1-9][0-9]{0,4}", re.ASCII
)


@dataclass(frozen=True)
class Dataset:
    """What a spec names: one of the two is not empty."""

    name: str
    uuid: str
    read_only: bool

    def __str__(self) -> str:
        return f"dataset {self.uuid or self.name!a}"


class Configured(msgspec.Struct, frozen=True):
    """A dataset as it is to be (`/configuration/datasets`)."""

    dataset_id: str
    deleted: bool = False
    metadata: dict[str, str] = {}


class Existing(msgspec.Struct, frozen=True):
    """A dataset as it is (`/state/datasets`). While it moves it is on no node."""

    dataset_id: str
    primary: str | None = None


class NodeState(msgspec.Struct, frozen=True):
    """A node that Flocker has (`/state/nodes`); `host` is its address."""

    uuid: str
    host: str


def written(spec: VolumeSpec) -> FlockerVolumeSource | None:
    """The `flocker` source of the spec, unchecked."""
    return spec.definition.flocker if spec.definition is not None else None


def dataset(spec: VolumeSpec) -> Dataset:
    """Raises InvalidSpec for a spec that is not Flocker's, or that cannot be meant."""
    source = written(spec)
    if source is None:
        raise InvalidSpec(f"volume {spec.name} has no flocker source")
    name, uuid = source.dataset_name, source.dataset_uuid
    if bool(name) == bool(uuid):
        raise InvalidSpec(f"volume {spec.name} needs either flocker.datasetUUID or flocker.datasetName")
    if uuid and not _UUID.fullmatch(uuid):
        raise InvalidSpec(f"flocker.datasetUUID {uuid[:100]!a} of volume {spec.name} is no UUID: correct it")
    if len(name) > LONGEST_NAME or "/" in name or not name.isprintable():
        raise InvalidSpec(
            f"flocker.datasetName {name[:100]!a} of volume {spec.name} must be printable, without '/', and of "
            f"{LONGEST_NAME} characters at the most: correct it"
        )
    return Dataset(name, uuid.lower(), spec.read_only)


def service(text: str) -> str:
    """The URL of the API at `HOST:PORT`. Raises PluginError."""
    if not _SERVICE.fullmatch(text) or int(text.rpartition(":")[2]) > 65535:
        raise PluginError(f"the setting controlService {text[:100]!a} is not HOST:PORT: correct it")
    return f"https://{text}/v1"


def uuid_of(wanted: Dataset, configured: Sequence[Configured]) -> str:
    """Which dataset is meant. Raises VolumeError if it is none, or if several have the name."""
    if wanted.uuid:
        return wanted.uuid
    found = {
        each.dataset_id.lower()
        for each in configured
        if not each.deleted and each.metadata.get("name") == wanted.name and _UUID.fullmatch(each.dataset_id)
    }
    if len(found) != 1:
        many = "more than one dataset" if found else "no dataset"
        raise VolumeError(
            f"Flocker has {many} of the name {wanted.name!a}: correct flocker.datasetName, or give its datasetUUID"
        )
    return found.pop()


def primary_of(uuid: str, existing: Sequence[Existing]) -> str | None:
    """The node that has the dataset, "" if none has; None if there is no such dataset."""
    found = [each for each in existing if each.dataset_id.lower() == uuid]
    return (found[0].primary or "").lower() if found else None


def node_of(addresses: Collection[str], nodes: Sequence[NodeState]) -> str:
    """Which of Flocker's nodes has one of these addresses. Raises VolumeError."""
    found = {each.uuid.lower() for each in nodes if each.host in addresses and _UUID.fullmatch(each.uuid)}
    if len(found) != 1:
        raise VolumeError(
            f"Flocker has {'several nodes' if found else 'no node'} with this node's address "
            f"({', '.join(sorted(addresses)) or 'it has none'}): look at flocker-dataset-agent here"
        )
    return str(UUID(found.pop()))
