"""What a delete does to an object: the rules of graceful deletion, finalizers and preconditions. Pure.

A deletion either removes the object now (`Remove`), marks it and waits (`Mark`), or changes nothing because
the deletion is in progress already (`Pending`). The garbage collector deletes dependents; this module only
sets the finalizers that tell it what to do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias

from mooring.apiserver.errors import (
    BadRequest,
    Obj,
    Resource,
    conflict,
    invalid_options,
    invalid_value,
    unsupported,
)
from mooring.apiserver.objects.kinds import Kind
from mooring.apiserver.store.object_store import decode, encode
from mooring.apiserver.values.dotted import object_at, text_at
from mooring.apiserver.values.timestamps import parse, stamp

ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"
_POLICIES = ("Foreground", "Background", "Orphan")


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """The client's options. `grace` in seconds."""

    grace: int | None = None
    uid: str | None = None
    version: str | None = None
    policy: str | None = None
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Remove:
    """The object goes now; `last` is its final state."""

    last: Obj


@dataclass(frozen=True, slots=True)
class Mark:
    """The object stays, marked as being deleted."""

    obj: Obj


@dataclass(frozen=True, slots=True)
class Pending:
    """Nothing changes: the deletion is under way already."""


Outcome: TypeAlias = Remove | Mark | Pending


def parse_options(body: Obj, query: Mapping[str, str]) -> DeleteOptions:
    """Options from the body of a delete, or else from its query. Raises BadRequest or Invalid."""
    if body.get("kind", "DeleteOptions") != "DeleteOptions":
        version = body.get("apiVersion", "")
        raise BadRequest(
            f'no kind "{body["kind"]}" is registered for version "{version}" as options of a delete'
        )
    preconditions = object_at(body, "preconditions")
    policy = body.get("propagationPolicy") or query.get("propagationPolicy")
    orphan = body.get("orphanDependents")
    if orphan is None and "orphanDependents" in query:
        orphan = query["orphanDependents"] in ("true", "1")
    if policy is not None and policy not in _POLICIES:
        raise invalid_options("DeleteOptions", unsupported("propagationPolicy", policy, (*_POLICIES, "nil")))
    if orphan is not None and policy is not None:
        detail = "orphanDependents and deletionPropagation cannot be both set"
        raise invalid_options("DeleteOptions", invalid_value("propagationPolicy", policy, detail))
    if orphan is not None:
        policy = "Orphan" if orphan else "Background"
    return DeleteOptions(
        grace=_grace(body, query),
        uid=text_at(preconditions, "uid") or None,
        version=text_at(preconditions, "resourceVersion") or None,
        policy=policy,
        dry_run=bool(body.get("dryRun")) or "dryRun" in query,
    )


def _grace(body: Obj, query: Mapping[str, str]) -> int | None:
    text = body.get("gracePeriodSeconds", query.get("gracePeriodSeconds"))
    if text is None or text == "":
        return None
    try:
        seconds = int(text)
    except (TypeError, ValueError) as error:
        raise BadRequest(f'strconv.ParseInt: parsing "{text}": invalid syntax') from error
    return seconds if seconds >= 0 else 1


def check_preconditions(kind: Kind, obj: Obj, options: DeleteOptions) -> None:
    """Raises Conflict unless the object is the one, at the version, that the client means."""
    meta: Obj = obj["metadata"]
    named = Resource(kind.group, kind.name)
    if options.uid is not None and options.uid != meta["uid"]:
        why = (
            f"the UID in the precondition ({options.uid}) does not match the UID in record ({meta['uid']}). "
            "The object might have been deleted and then recreated"
        )
        raise conflict(named, meta["name"], why)
    if options.version is not None and options.version != meta["resourceVersion"]:
        why = (
            f"the ResourceVersion in the precondition ({options.version}) does not match the ResourceVersion in record "
            f"({meta['resourceVersion']}). The object might have been modified"
        )
        raise conflict(named, meta["name"], why)


def deleted(kind: Kind, old: Obj, options: DeleteOptions, now: datetime) -> Outcome:
    """What a delete does to `old`, whose preconditions hold."""
    obj = decode(encode(old))
    meta: Obj = obj["metadata"]
    grace = kind.strategy.grace_seconds(old, options.grace)
    if "deletionTimestamp" in meta and grace is not None:
        if meta.get("deletionGracePeriodSeconds"):
            if not _shorten(meta, options, now):
                return Pending()
        else:
            grace = None
    elif grace is not None:
        _mark(meta, now + timedelta(seconds=grace), grace)
    _set_collection_finalizers(meta, kind, options)
    if meta.get("deletionGracePeriodSeconds") and grace is not None:
        return Mark(obj)
    if meta.get("finalizers") or kind.strategy.holds(obj):
        _mark_ungraceful(meta, now)
        kind.strategy.mark_deleted(obj)
        return Pending() if obj == old else Mark(obj)
    return Remove(obj)


def ends_with_update(kind: Kind, old: Obj, new: Obj) -> bool:
    """Whether an update completes a deletion: the last finalizer is gone and no grace is left to wait for."""
    meta: Obj = new["metadata"]
    if meta.get("finalizers") or "deletionTimestamp" not in old["metadata"]:
        return False
    return not old["metadata"].get("deletionGracePeriodSeconds") and not kind.strategy.holds(new)


def _mark(meta: Obj, when: datetime, grace: int) -> None:
    if "generation" in meta:
        meta["generation"] += 1
    meta |= {"deletionTimestamp": stamp(when), "deletionGracePeriodSeconds": grace}


def _shorten(meta: Obj, options: DeleteOptions, now: datetime) -> bool:
    """Shortens a grace period under way. It never grows; False if nothing changes."""
    have = int(meta["deletionGracePeriodSeconds"])
    if options.grace is None or options.grace >= have:
        return False
    grace = options.grace
    when = parse(meta["deletionTimestamp"]) - timedelta(seconds=have - grace)
    if when < now:
        when, grace = now, 1 if grace else 0
    meta |= {"deletionTimestamp": stamp(when), "deletionGracePeriodSeconds": grace}
    return True


def _mark_ungraceful(meta: Obj, now: datetime) -> None:
    if "deletionTimestamp" not in meta and "generation" in meta:
        meta["generation"] += 1
    if "deletionTimestamp" not in meta or parse(meta["deletionTimestamp"]) > now:
        meta["deletionTimestamp"] = stamp(now)
    meta["deletionGracePeriodSeconds"] = 0


def _set_collection_finalizers(meta: Obj, kind: Kind, options: DeleteOptions) -> None:
    """The finalizers that tell the garbage collector what to do with dependents; an explicit policy overrides
    them."""
    have: list[str] = meta.get("finalizers") or []
    wanted = {"Orphan": ORPHAN, "Foreground": FOREGROUND, "Background": None}.get(options.policy or "", "")
    if wanted == "":
        wanted = next(
            (each for each in have if each in (ORPHAN, FOREGROUND)),
            ORPHAN if kind.strategy.orphans_by_default else None,
        )
    kept = [each for each in have if each not in (ORPHAN, FOREGROUND)]
    meta["finalizers"] = [*kept, wanted] if wanted else kept
    if not meta["finalizers"]:
        del meta["finalizers"]
