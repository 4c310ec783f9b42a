"""Invariants of the parts themselves: the API server keeps what it acknowledged, no part ends by itself or
goes on after an error of its own code, and no part writes an object upon a state that it knows to be old."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import cast

import msgspec

from mooring.simulation.checks.invariants.checker import Checker, Found
from mooring.simulation.engine.trace import Event, Trace


class NothingAcknowledgedIsLost(Checker):
    """D1: a write that was acknowledged is there after a crash of the API server."""

    name = "D1"

    def __init__(self, trace: Trace, found: Found) -> None:
        super().__init__(trace, found)
        trace.listen("truth.recovered", self._recovered)

    def _recovered(self, event: Event) -> None:
        self.guarded += 1
        if event.fields["has"] < event.fields["had"]:
            had, has = event.fields["had"], event.fields["has"]
            self.wrong(f"version {had} was acknowledged, {has} is there", event)


class PartsGoOn(Checker):
    """P1: no controller and no agent ends by itself."""

    name = "P1"

    def __init__(self, trace: Trace, found: Found) -> None:
        super().__init__(trace, found)
        trace.listen("truth.died", lambda e: self.wrong(f"{e.actor} ended with {e.fields['error']}", e))


UNEXPECTED = (
    *(TypeError, ValueError, AttributeError, LookupError, NameError, AssertionError, ArithmeticError),
    *(RuntimeError, asyncio.InvalidStateError, msgspec.MsgspecError),
)
"""Nothing outside of a part raises these: its own code is wrong."""
OURS = "mooring."
"""Errors that are defined here mean what they say, whatever they are derived from."""


class ErrorsAreExpected(Checker):
    """P2: what work on a key raises, and is tried again for, is an error that may come from outside: of the
    API server, a storage, a driver, the operating system. It is no error of the code."""

    name = "P2"

    def __init__(self, trace: Trace, found: Found) -> None:
        super().__init__(trace, found)
        self._told: set[tuple[str, str, str]] = set()
        trace.listen("truth.raised", self._raised)

    def _raised(self, event: Event) -> None:
        self.guarded += 1
        where = event.fields["where"]
        for error in _each(event.fields["_error"]):
            key = event.actor, where, type(error).__name__
            if _is_unexpected(error) and key not in self._told:
                self._told.add(key)
                self.wrong(f"{event.actor}: {where}: {type(error).__name__}: {error}", event)


def _is_unexpected(error: BaseException) -> bool:
    return isinstance(error, UNEXPECTED) and not type(error).__module__.startswith(OURS)


def _each(error: BaseException) -> Iterator[BaseException]:
    """What a group is made of."""
    if not isinstance(error, BaseExceptionGroup):
        yield error
        return
    for part in cast(BaseExceptionGroup[BaseException], error).exceptions:
        yield from _each(part)


MECHANISMS_READ = {("fencing-controller", each) for each in ("GET leases", "GET secrets")}
"""A fence mechanism whose reading fails does not know: that is its answer, and it is looked at again."""


DONE_EVERY_MINUTE = ("attacher", "VerifyKey.VERIFY")
"""What was written since the storage was asked, or could not be asked about, is looked at again with the next
verification."""


class FailuresAreTold(Checker):
    """P3: work on a key does not end as if all were well after a request of its own has failed, and nothing
    was read or written of that object since: the key would not be tried again."""

    name = "P3"

    def __init__(self, trace: Trace, found: Found) -> None:
        super().__init__(trace, found)
        self._told: set[tuple[str, str]] = set()
        trace.listen("told.worked", self._worked)

    def _worked(self, event: Event) -> None:
        self.guarded += 1
        controller, key, request = (event.fields[each] for each in ("controller", "key", "request"))
        if (controller, key) == DONE_EVERY_MINUTE:
            return
        if request and (controller, request) not in self._told | MECHANISMS_READ:
            self._told.add((controller, request))
            self.wrong(
                f"{controller} is done with {key}, and {request} of {event.fields['path']} has failed", event
            )


class ReadsItsWrites(Checker):
    """S19: no part writes an object upon a state that is older than the one that its own last write
    returned.

    Of two writes at once the answers may come in either order; each writer goes on from its own.
    """

    name = "S19"

    def __init__(self, trace: Trace, found: Found) -> None:
        super().__init__(trace, found)
        self._known: dict[tuple[str, str, str], int] = {}  # life, resource, name -> the newest it was told
        self._told: dict[tuple[str, str, str], int] = {}  # and what it was told last
        trace.listen("asked.write", self._note_request)
        trace.listen("asked.answered", self._answered)

    def _note_request(self, event: Event) -> None:
        version = event.fields["version"]
        key = self._key(event)
        known = self._known.get(key)
        if version is None or known is None:
            return
        self.guarded += 1
        if version < known and version != self._told[key]:
            what = f"{event.fields['resource']} {event.fields['name']}"
            self.wrong(
                f"{event.actor} writes {what} upon version {version}, and has itself written {known}", event
            )

    def _answered(self, event: Event) -> None:
        key = self._key(event)
        self._told[key] = event.fields["version"]
        self._known[key] = max(self._known.get(key, 0), self._told[key])

    @staticmethod
    def _key(event: Event) -> tuple[str, str, str]:
        return event.fields["life"], event.fields["resource"], event.fields["name"]
