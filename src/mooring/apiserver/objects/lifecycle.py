"""The rules by which a client's body becomes the stored object at a create or an update. Pure.

`created` and `revised` return a complete new object, or raise `BadRequest` or `Invalid`; they never change
`old`. The caller stores the result in the same turn of the event loop, so that no other write comes between.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

from mooring.apiserver.errors import BadRequest, FieldError, Obj, invalid
from mooring.apiserver.objects import metadata
from mooring.apiserver.objects.kinds import Kind
from mooring.apiserver.objects.strategy import Admission
from mooring.apiserver.objects.typed_form import clear_status, tidied

_FORM_ERRORS = (AttributeError, IndexError, KeyError, TypeError, ValueError)


def created(kind: Kind, sent: Obj, admission: Admission, *, uid: str) -> Obj:
    """The object to store for a create. Its name and namespace are already settled."""
    obj = _tidied(kind, sent, admission)
    generation = kind.strategy.first_generation if kind.strategy.counts_generations else 0
    metadata.stamp_new(obj["metadata"], uid=uid, now=admission.now, generation=generation)
    if kind.has_status and kind.strategy.clears_status:
        clear_status(kind, obj)

    def admit() -> Sequence[FieldError]:
        kind.strategy.default(obj)
        kind.strategy.prepare_create(obj, admission)
        return kind.strategy.validate_new(obj)

    _judge(kind, obj, admit)
    metadata.tidy(obj["metadata"])
    return obj


def revised(kind: Kind, sent: Obj, old: Obj, admission: Admission, *, status: bool) -> Obj:
    """The object to store for an update of `old`, through /status if `status`. Equal to `old` if nothing
    changes."""
    sent = _tidied(kind, _touched(sent, old, status=status and kind.has_status), admission)
    obj = _through_status(kind, sent, old) if status else sent
    metadata.carry_over(obj["metadata"], old["metadata"])
    if not status and kind.has_status:
        _restore(obj, old, "status")

    def admit() -> Sequence[FieldError]:
        if status:
            kind.strategy.prepare_status(obj, old, admission)
            return kind.strategy.validate_status(obj)
        kind.strategy.default(obj)
        kind.strategy.prepare_update(obj, old, admission)
        if kind.strategy.counts_generations and _counted(kind, obj) != _counted(kind, old):
            obj["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
        errors = [] if _is_judged(obj, old) else kind.strategy.validate(obj)
        changes = kind.strategy.validate_update(obj, old)
        return [*changes, *errors] if kind.strategy.changes_first else [*errors, *changes]

    _judge(kind, obj, admit, old)
    if not status:
        kind.strategy.admit_update(obj, old, admission)
    metadata.tidy(obj["metadata"])
    obj["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
    return obj


def _is_judged(obj: Obj, old: Obj) -> bool:
    """Whether the parts that rules check are as they are stored. They were valid then, so they are not
    checked again.

    This also lets objects change that were stored before a rule existed.
    """
    if obj["metadata"].get("annotations") != old["metadata"].get("annotations"):
        return False
    fields = (obj.keys() | old.keys()) - {"metadata", "status"}
    return all(obj.get(field) == old.get(field) for field in fields)


def _tidied(kind: Kind, sent: Obj, admission: Admission) -> Obj:
    unknown: list[str] = []
    obj = tidied(kind, sent, unknown)
    if unknown:
        admission.unknown_fields(kind, unknown)
    return obj


def _touched(sent: Obj, old: Obj, *, status: bool) -> Obj:
    """The body without the parts that come from `old` anyway, because the patch or /status leaves them
    unchanged; those need no check.

    A write to /status takes nothing else from what was sent than metadata and status, any other write all but
    status.
    """
    return {
        key: value
        for key, value in sent.items()
        if value is not old.get(key) or (key in ("metadata", "status") if status else key != "status")
    }


def _through_status(kind: Kind, sent: Obj, old: Obj) -> Obj:
    """Of a write to /status: the status, and metadata as far as the kind allows."""
    obj = old | {"metadata": sent["metadata"]}
    _restore(obj, sent, "status")
    for field in kind.strategy.status_keeps:
        _restore(obj["metadata"], old["metadata"], field)
    return obj


def _restore(obj: Obj, source: Obj, field: str) -> None:
    obj.pop(field, None)
    if field in source:
        obj[field] = copy(source[field])


def _counted(kind: Kind, obj: Obj) -> Sequence[Any]:
    """The parts of an object whose changes raise its generation."""
    spec = {key: value for key, value in obj.items() if key not in ("metadata", "status")}
    return [spec, *(obj["metadata"].get(field) for field in kind.strategy.generation_counts)]


def _judge(kind: Kind, obj: Obj, admit: Callable[[], Sequence[FieldError]], old: Obj | None = None) -> None:
    meta: Obj = obj["metadata"]
    try:
        rule_errors = admit()
    except _FORM_ERRORS as error:
        raise BadRequest(
            f"the object does not have the form of a {kind.name}: {_description(error)}"
        ) from error
    errors = metadata.validate(kind, meta, old["metadata"] if old is not None else None)
    if old is not None:
        errors += metadata.validate_update(meta, old["metadata"])
    errors += rule_errors
    if errors:
        raise invalid(kind.group, kind.name, meta.get("name") or "", errors)


def _description(error: Exception) -> Any:
    return f"field {error} is missing" if isinstance(error, KeyError) else error
