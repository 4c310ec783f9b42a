"""What every object has: metadata, owners, conditions, references, selectors; and where its kind lives in the
API."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import msgspec

from mooring.kube.objects.segments import segment


class Resource(NamedTuple):
    """Where a kind lives in the API: `group` is "" for the core group."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(
        self, namespace: str | None = None, name: str | None = None, subresource: str | None = None
    ) -> str:
        """The URL path of the collection, or (with a `name`) of one object or subresource.

        Raises InvalidRequest for what cannot be the name of an object or namespace; so an object without a
        name is never taken for its collection, and one of a namespaced kind is never asked for without its
        namespace."""
        parts = [version_path(self.group, self.version)]
        if self.namespaced and (namespace or name is not None):
            parts += ["namespaces", segment(namespace or "")]
        parts.append(segment(self.plural))
        if name is not None:
            parts.append(segment(name))
        if subresource:
            parts.append(segment(subresource))
        return "/".join(parts)


def version_path(group: str, version: str) -> str:
    """The URL path of one version of an API group. Raises InvalidRequest."""
    return f"/apis/{segment(group)}/{segment(version)}" if group else f"/api/{segment(version)}"


class Struct(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True, gc=False):
    """Base of everything here: frozen, camelCase on the wire."""


class OwnerReference(Struct, frozen=True):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False
    block_owner_deletion: bool = False


class OwnedFields(Struct, frozen=True):
    """Of the fields that a manager owns, those of the spec."""

    spec: dict[str, Any] = msgspec.field(default={}, name="f:spec")


class ManagedFieldsEntry(Struct, frozen=True):
    manager: str = ""
    operation: str = ""
    subresource: str = ""
    time: str | None = None
    fields_v1: OwnedFields = OwnedFields()


class ObjectMeta(Struct, frozen=True):
    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()


class ManagedMeta(ObjectMeta, frozen=True):
    """Metadata with who wrote what, when."""

    managed_fields: tuple[ManagedFieldsEntry, ...] = ()


class Object(Struct, frozen=True):
    """A top-level object. `key` is "namespace/name", or "name" for cluster-scoped kinds."""

    RESOURCE: ClassVar[Resource]

    metadata: ObjectMeta = ObjectMeta()

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def namespace(self) -> str:
        return self.metadata.namespace

    @property
    def uid(self) -> str:
        return self.metadata.uid

    @property
    def key(self) -> str:
        return (
            f"{self.metadata.namespace}/{self.metadata.name}"
            if self.metadata.namespace
            else self.metadata.name
        )

    @property
    def deleting(self) -> bool:
        """A deletionTimestamp is set: the object ends when its finalizers (or a pod's node) let it."""
        return self.metadata.deletion_timestamp is not None

    @property
    def controller(self) -> OwnerReference | None:
        return next((owner for owner in self.metadata.owner_references if owner.controller), None)


class LocalObjectReference(Struct, frozen=True):
    name: str = ""


class ObjectReference(Struct, frozen=True):
    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    field_path: str = ""


class Condition(Struct, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None
    last_heartbeat_time: str | None = None
    last_update_time: str | None = None


class LabelSelectorRequirement(Struct, frozen=True):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(Struct, frozen=True):
    match_labels: dict[str, str] = {}
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()
