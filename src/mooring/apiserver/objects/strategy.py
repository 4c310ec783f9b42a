"""The rules that may differ from kind to kind; the defaults are those of an ordinary kind.

A strategy is stateless and pure but for the `Admission` that it is given: it changes the new object in place,
or returns the field errors that make it invalid. It knows nothing of requests or of the store.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import msgspec

from mooring.apiserver.errors import FieldError, Obj, forbidden_field, invalid_value
from mooring.apiserver.objects.defaults import Rules, fill
from mooring.apiserver.objects.validation.checks import Check
from mooring.apiserver.objects.validation.formats import subdomain_error
from mooring.apiserver.values.dotted import value_at

IMMUTABLE = "field is immutable"


class Admission(msgspec.Struct, frozen=True):
    """What a strategy may look at besides the object: the time of the request (RFC 3339) and other
    objects."""

    now: str
    objects: Callable[[str], Sequence[Obj]]
    """The committed objects of a resource, by storage name (`storageclasses.storage.k8s.io`)."""
    unknown_fields: Callable[[Any, Sequence[str]], None] = lambda kind, paths: None
    """Handles fields that a kind does not have: ignores them, warns, or raises."""


class Strategy:
    """An ordinary kind. Subclasses set the attributes, and override the hooks that are special for their
    kind."""

    defaults: ClassVar[Rules] = {}
    name_error: Callable[[str], str | None] = staticmethod(subdomain_error)
    clears_status: ClassVar[bool] = True
    """Whether a create drops the client's status."""
    status_keeps: ClassVar[Sequence[str]] = ()
    """Metadata fields that a write to /status cannot change."""
    unconditional_update: ClassVar[bool] = True
    """Whether a PUT may leave out the resourceVersion."""
    create_on_update: ClassVar[bool] = False
    """Whether a PUT of a name that does not exist creates it."""
    orphans_by_default: ClassVar[bool] = False
    returns_deleted: ClassVar[bool] = False
    """Whether a delete that removes the object answers with it rather than with a Status."""
    counts_generations: ClassVar[bool] = False
    """Whether metadata.generation rises with every change of the spec."""
    first_generation: ClassVar[int] = 1
    """The generation of a new object if they are counted; 0 sets none."""
    generation_counts: ClassVar[Sequence[str]] = ()
    """Metadata fields whose change raises the generation, too."""
    kube_finalizers: ClassVar[bool] = True
    """Whether a finalizer needs a domain, unless it is one of Kubernetes' own."""
    judges_base: ClassVar[bool] = True
    """Whether an update may not bring a `generateName` that no name can be made from."""
    any_base: ClassVar[bool] = False
    """Whether a new object may have any `generateName` beside its name."""
    changes_first: ClassVar[bool] = False
    """Whether errors of forbidden changes come before errors of values."""
    rules: ClassVar[Sequence[Check]] = ()
    """Checks of every object of the kind."""
    new_rules: ClassVar[Sequence[Check]] = ()
    """Further checks of a new object."""
    immutable: ClassVar[Mapping[str, str]] = {}
    """Fields (dotted) that an update may not change, each with upstream's words."""

    def default(self, obj: Obj) -> None:
        """Fills in the fields that the client left out; also run on every update."""
        fill(obj, self.defaults)

    def prepare_create(self, obj: Obj, admission: Admission) -> None:
        """Changes an object on its way in: status, finalizers and what admission adds."""

    def prepare_update(self, obj: Obj, old: Obj, admission: Admission) -> None:
        """Changes an object on its way over an existing one."""

    def admit_update(self, obj: Obj, old: Obj, admission: Admission) -> None:
        """Refuses an update that is valid, for what other objects say (upstream: admission plugins that
        validate). Raises Forbidden."""

    def prepare_status(self, obj: Obj, old: Obj, admission: Admission) -> None:
        """Changes an object on its way through /status."""

    def validate(self, obj: Obj) -> list[FieldError]:
        """All errors of an object. Not called for an update that changes neither the object nor its
        annotations."""
        return [error for rule in self.rules for error in rule(obj)]

    def validate_new(self, obj: Obj) -> list[FieldError]:
        """All errors of a new object."""
        return [*self.validate(obj), *(error for rule in self.new_rules for error in rule(obj))]

    def validate_status(self, obj: Obj) -> Sequence[FieldError]:
        """All errors of an object written through /status."""
        return ()

    def validate_update(self, obj: Obj, old: Obj) -> list[FieldError]:
        """All errors of replacing `old` by `obj`."""
        changed = [path for path in self.immutable if value_at(obj, path) != value_at(old, path)]
        return [_immutable_error(path, value_at(obj, path), self.immutable[path]) for path in changed]

    def fields(self, obj: Obj) -> Mapping[str, str]:
        """The fields beyond name and namespace that field selectors can ask for; one that is empty is still
        named."""
        return {}

    def holds(self, obj: Obj) -> bool:
        """Whether something beyond metadata.finalizers keeps a deleted object for now."""
        return False

    def mark_deleted(self, obj: Obj) -> None:
        """Changes an object that stays although it is deleted."""

    def grace_seconds(self, obj: Obj, requested: int | None) -> int | None:
        """The grace period of a deletion, or None if the kind is deleted at once."""
        return None


def _immutable_error(path: str, value: Any, detail: str) -> FieldError:
    if detail in (IMMUTABLE, "cannot change roleRef"):
        return invalid_value(path, value, detail)
    return forbidden_field(path, detail)
