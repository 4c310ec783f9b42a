"""What may differ from kind to kind, with the behaviour of an ordinary kind as the default.

A strategy is stateless and pure but for the `Admission` that it is given: it changes the new object in place, or
returns the field errors that make it invalid. It knows nothing of requests or of the store.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar

import msgspec

from mooring.apiserver.defaults import Rules, fill
from mooring.apiserver.dotted import value_at
from mooring.apiserver.errors import FieldError, Obj, forbidden_field, invalid_value

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")

IMMUTABLE = "field is immutable"


class Admission(msgspec.Struct, frozen=True):
    """What a strategy may look at besides the object: the time of the request (RFC 3339) and other objects."""

    now: str
    objects: Callable[[str], Sequence[Obj]]
    """The committed objects of a resource, by storage name (`storageclasses.storage.k8s.io`)."""
    unknown_fields: Callable[[Any, Sequence[str]], None] = lambda kind, paths: None
    """What is done about fields that a kind does not have: nothing, a warning, or a refusal."""


@lru_cache(maxsize=4096)
def subdomain_error(name: str) -> str | None:
    """Why `name` is not an RFC 1123 subdomain, in upstream's words, or None."""
    if len(name) > 253:
        return "must be no more than 253 characters"
    if _SUBDOMAIN.fullmatch(name):
        return None
    return (
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
        "and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
        "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
    )


def label_error(name: str) -> str | None:
    """Why `name` is not an RFC 1123 label, in upstream's words, or None."""
    if len(name) > 63:
        return "must be no more than 63 characters"
    if _LABEL.fullmatch(name):
        return None
    return (
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end "
        "with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
        "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
    )


def path_segment_error(name: str) -> str | None:
    """Why `name` cannot be a part of a URL path (RBAC names), or None."""
    if name in (".", ".."):
        return f"may not be '{name}'"
    return next((f"may not contain '{mark}'" for mark in "/%" if mark in name), None)


_LABEL_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_NAME_FORM = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_QUALIFIED_NAME = f"name part {_NAME_FORM}"
_LABEL_KEY = f"a valid label key {_NAME_FORM} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"


@lru_cache(maxsize=4096)
def qualified_name_errors(key: str) -> Sequence[str]:
    """Why `key` is not a qualified name (`name` or `prefix/name`), in upstream's words."""
    if key.count("/") > 1:
        return (_LABEL_KEY,)
    prefix, slash, name = key.rpartition("/")
    found: list[str] = []
    if slash and not prefix:
        found.append("prefix part must be non-empty")
    elif prefix and (why := subdomain_error(prefix)) is not None:
        found.append(f"prefix part {why}")
    if not name:
        found.append("name part must be non-empty")
    elif len(name) > 63:
        found.append("name part must be no more than 63 bytes")
    if not _LABEL_NAME.fullmatch(name):
        found.append(_QUALIFIED_NAME)
    return found


class Strategy:
    """An ordinary kind. Subclasses set the attributes, and override the hooks that are special for their kind."""

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
    immutable: ClassVar[Mapping[str, str]] = {}
    """Fields (dotted) that an update may not change, each with upstream's words."""

    def default(self, obj: Obj) -> None:
        """Fill in the fields that the client left out; also run on every update."""
        fill(obj, self.defaults)

    def prepare_create(self, obj: Obj, admission: Admission) -> None:
        """Change an object on its way in: status, finalizers and what admission adds."""

    def prepare_update(self, obj: Obj, old: Obj, admission: Admission) -> None:
        """Change an object on its way over an existing one."""

    def prepare_status(self, obj: Obj, old: Obj, admission: Admission) -> None:
        """Change an object on its way through /status."""

    def validate(self, obj: Obj) -> list[FieldError]:
        """Everything wrong with an object."""
        return []

    def validate_status(self, obj: Obj) -> Sequence[FieldError]:
        """Everything wrong with an object that came through /status."""
        return ()

    def validate_update(self, obj: Obj, old: Obj) -> list[FieldError]:
        """Everything wrong with replacing `old` by `obj`."""
        changed = [path for path in self.immutable if value_at(obj, path) != value_at(old, path)]
        return [_immutable_error(path, value_at(obj, path), self.immutable[path]) for path in changed]

    def fields(self, obj: Obj) -> Mapping[str, str]:
        """The fields beyond name and namespace that field selectors can ask for; one that is empty is still named."""
        return {}

    def holds(self, obj: Obj) -> bool:
        """Whether something beyond metadata.finalizers keeps a deleted object for now."""
        return False

    def mark_deleted(self, obj: Obj) -> None:
        """Change an object that stays although it is deleted."""

    def grace_seconds(self, obj: Obj, asked: int | None) -> int | None:
        """The grace period of a deletion, or None if the kind is deleted at once."""
        return None


def _immutable_error(path: str, value: Any, detail: str) -> FieldError:
    if detail == IMMUTABLE:
        return invalid_value(path, value, detail)
    return forbidden_field(path, detail)
