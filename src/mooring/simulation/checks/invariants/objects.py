"""The few fields of stored objects that checkers look at."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from mooring.simulation.checks.invariants.places import Affinity, Taint, Toleration
from mooring.simulation.engine.trace import Event
from mooring.volumes.names import VOLUME_NAME

ATTACHMENTS = "volumeattachments.storage.k8s.io"
CLAIMS = "persistentvolumeclaims"
VOLUMES = "persistentvolumes"
CONFIG_MAPS, SECRETS = "configmaps", "secrets"
ObjectKey = tuple[str, str]
"""The plural name of a kind, without its group, and "namespace/name" (or "name")."""


class OwnerReference(msgspec.Struct):
    uid: str = ""
    controller: bool | None = None


class Metadata(msgspec.Struct, rename="camel"):
    name: str = ""
    uid: str = ""
    annotations: dict[str, str] = {}
    labels: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    owner_references: tuple[OwnerReference, ...] = ()


class Reference(msgspec.Struct):
    uid: str = ""
    name: str = ""
    namespace: str = ""

    @property
    def key(self) -> str:
        """Under which the store has it."""
        return f"{self.namespace}/{self.name}"


class Source(msgspec.Struct, rename="camel", frozen=True):
    persistent_volume_name: str = ""


class DataSource(msgspec.Struct, frozen=True):
    """What a claim is to be a copy of: a VolumeSnapshot, or another claim, of its namespace."""

    kind: str = ""
    name: str = ""


class ClaimSource(msgspec.Struct, rename="camel"):
    claim_name: str = ""


class SecretSource(msgspec.Struct, rename="camel"):
    secret_name: str = ""


class FieldReference(msgspec.Struct, rename="camel", frozen=True):
    field_path: str = ""


class KeyToPath(msgspec.Struct, rename="camel"):
    """A key, or a field of the pod, and the path of its file."""

    key: str = ""
    path: str = ""
    field_ref: FieldReference = FieldReference()


class Items(msgspec.Struct):
    """A source of files: of a ConfigMap or Secret by its name, or of fields of the pod."""

    name: str = ""
    items: tuple[KeyToPath, ...] = ()


class TokenSource(msgspec.Struct, rename="camel"):
    path: str = ""
    audience: str = ""
    expiration_seconds: int = 3600


class Projection(msgspec.Struct, rename="camel"):
    config_map: Items | None = None
    secret: Items | None = None
    downward_api: Items | None = msgspec.field(default=None, name="downwardAPI")
    service_account_token: TokenSource | None = None


class Projected(msgspec.Struct):
    sources: tuple[Projection, ...] = ()


class EphemeralSource(msgspec.Struct):
    """A claim of its own, made for the pod."""


class PodVolume(msgspec.Struct, rename="camel"):
    name: str = ""
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: EphemeralSource | None = None
    config_map: Items | None = None
    secret: SecretSource | None = None
    projected: Projected | None = None

    @property
    def projections(self) -> tuple[Projection, ...]:
        """What it shows of the API: a plain volume of one source is a projection of it."""
        if self.config_map is not None:
            return (Projection(config_map=self.config_map),)
        if self.secret is not None:
            return (Projection(secret=Items(self.secret.secret_name)),)
        return self.projected.sources if self.projected is not None else ()

    @property
    def objects(self) -> Iterator[ObjectKey]:
        """The ConfigMaps and Secrets that must be there for it, without their namespace."""
        for each in self.projections:
            if each.config_map is not None:
                yield CONFIG_MAPS, each.config_map.name
            if each.secret is not None:
                yield SECRETS, each.secret.name

    def claim_of(self, pod: str) -> str:
        """The name of its claim; "" for a volume without one."""
        if self.ephemeral is not None:
            return f"{pod}-{self.name}"
        return self.persistent_volume_claim.claim_name if self.persistent_volume_claim is not None else ""


class Attached(msgspec.Struct):
    name: str = ""


class FlexVolume(msgspec.Struct):
    options: dict[str, str] = {}


class CsiVolume(msgspec.Struct, rename="camel"):
    volume_handle: str = ""


class Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""
    volume_name: str = ""
    access_modes: tuple[str, ...] = ()
    claim_ref: Reference | None = None
    taints: tuple[Taint, ...] = ()
    volumes: tuple[PodVolume, ...] = ()
    source: Source = Source()
    unschedulable: bool = False
    tolerations: tuple[Toleration, ...] = ()
    affinity: Affinity = Affinity()
    renew_time: str = ""
    replicas: int = 1
    pod_management_policy: str = ""
    storage_class_name: str = ""
    data_source: DataSource | None = None
    persistent_volume_reclaim_policy: str = ""
    flex_volume: FlexVolume | None = None
    csi: CsiVolume | None = None
    drivers: tuple[Reference, ...] = ()
    revision_history_limit: int | None = None
    volume_attributes_class_name: str = ""


class Condition(msgspec.Struct):
    type: str = ""
    status: str = ""
    reason: str | None = None


class NodeInfo(msgspec.Struct, frozen=True):
    boot_id: str = msgspec.field(default="", name="bootID")


class Modifying(msgspec.Struct, rename="camel"):
    """What a claim says of the attributes that its volume is to get. `status`: Pending, InProgress or
    Infeasible."""

    target_volume_attributes_class_name: str = ""
    status: str = ""


class Status(msgspec.Struct, rename="camel"):
    node_info: NodeInfo = NodeInfo()
    phase: str = ""
    reason: str | None = None
    attached: bool = False
    attach_error: dict[str, str] | None = None
    detach_error: dict[str, str] | None = None
    volumes_attached: tuple[Attached, ...] = ()
    volumes_in_use: tuple[str, ...] = ()
    current_revision: str = ""
    update_revision: str = ""
    conditions: tuple[Condition, ...] = ()
    current_volume_attributes_class_name: str = ""
    modify_volume_status: Modifying | None = None


def disk_of(volume_name: str) -> str:
    """A CSI volume's name has its driver before it."""
    return volume_name.rpartition("^")[2]


class StoredObject(msgspec.Struct):
    metadata: Metadata
    spec: Spec = msgspec.field(default_factory=Spec)
    status: Status = msgspec.field(default_factory=Status)
    revision: int = 0

    @property
    def controller_uid(self) -> str:
        """The uid of the controller that owns it; "" if none does."""
        return next((each.uid for each in self.metadata.owner_references if each.controller), "")

    @property
    def volume_name(self) -> str:
        """Of a VolumeAttachment: the volume that it is about. Disks have the names of their
        PersistentVolumes."""
        return self.spec.source.persistent_volume_name or disk_of(
            self.metadata.annotations.get(VOLUME_NAME, "")
        )

    @property
    def unique_disk(self) -> str:
        """Of a VolumeAttachment: its disk, as Nodes' lists name it."""
        named = disk_of(self.metadata.annotations.get(VOLUME_NAME, ""))
        return named or self.spec.source.persistent_volume_name

    @property
    def going(self) -> bool:
        """Whether it is being deleted."""
        return self.metadata.deletion_timestamp is not None

    @property
    def ended(self) -> bool:
        """Of a pod: it has ended by itself."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def disk(self) -> str:
        """Of a PersistentVolume: what its storage calls the disk."""
        if self.spec.csi is not None:
            return self.spec.csi.volume_handle
        return self.spec.flex_volume.options.get("disk", "") if self.spec.flex_volume is not None else ""

    @property
    def claims(self) -> tuple[str, ...]:
        """Of a pod: the names of the claims that its volumes name, or that were made for them."""
        named = (each.claim_of(self.metadata.name) for each in self.spec.volumes)
        return tuple(name for name in named if name)

    @property
    def ready(self) -> str:
        """The status of its condition Ready."""
        return next((each.status for each in self.status.conditions if each.type == "Ready"), "")


decode = msgspec.json.Decoder(StoredObject).decode
"""Decodes one object."""
_last: list[tuple[bytes, StoredObject]] = []


def object_of(event: Event) -> StoredObject:
    """The object of a "store.written" or "store.deleted": decoded once for all checkers of an event."""
    body: bytes = event.fields["_body"]
    if not _last or _last[0][0] is not body:
        _last[:] = [(body, decode(body))]
    return _last[0][1]


def key_of(event: Event) -> ObjectKey:
    """Which object an event is about: the store tells the group of its kind, requests do not."""
    return event.fields["resource"].partition(".")[0], event.fields["name"]
