"""The few fields of stored objects that checkers look at."""

from __future__ import annotations

import msgspec

from mooring.simulation.engine.trace import Event
from mooring.volumes.names import VOLUME_NAME

ATTACHMENTS = "volumeattachments.storage.k8s.io"
CLAIMS = "persistentvolumeclaims"
VOLUMES = "persistentvolumes"


class Metadata(msgspec.Struct, rename="camel"):
    uid: str = ""
    annotations: dict[str, str] = {}
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None


class Reference(msgspec.Struct):
    uid: str = ""
    name: str = ""


class Source(msgspec.Struct, rename="camel", frozen=True):
    persistent_volume_name: str = ""


class ClaimSource(msgspec.Struct, rename="camel"):
    claim_name: str = ""


class PodVolume(msgspec.Struct, rename="camel"):
    persistent_volume_claim: ClaimSource | None = None


class Taint(msgspec.Struct, rename="camel"):
    key: str = ""
    time_added: str = ""


class Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""
    volume_name: str = ""
    access_modes: tuple[str, ...] = ()
    claim_ref: Reference | None = None
    taints: tuple[Taint, ...] = ()
    volumes: tuple[PodVolume, ...] = ()
    source: Source = Source()


class Condition(msgspec.Struct):
    type: str = ""
    status: str = ""


class Status(msgspec.Struct):
    phase: str = ""
    attached: bool = False
    conditions: tuple[Condition, ...] = ()


def disk_of(volume_name: str) -> str:
    """A CSI volume's name has its driver before it."""
    return volume_name.rpartition("^")[2]


class StoredObject(msgspec.Struct):
    metadata: Metadata
    spec: Spec = msgspec.field(default_factory=Spec)
    status: Status = msgspec.field(default_factory=Status)

    @property
    def volume_name(self) -> str:
        """Of a VolumeAttachment: the volume that it is about. Disks have the names of their
        PersistentVolumes."""
        return self.spec.source.persistent_volume_name or disk_of(
            self.metadata.annotations.get(VOLUME_NAME, "")
        )

    @property
    def ready(self) -> str:
        """The status of its condition Ready."""
        return next((each.status for each in self.status.conditions if each.type == "Ready"), "")


_decode = msgspec.json.Decoder(StoredObject).decode
_last: list[tuple[bytes, StoredObject]] = []


def object_of(event: Event) -> StoredObject:
    """The object of a "store.written" or "store.deleted": decoded once for all checkers of an event."""
    body: bytes = event.fields["_body"]
    if not _last or _last[0][0] is not body:
        _last[:] = [(body, _decode(body))]
    return _last[0][1]
