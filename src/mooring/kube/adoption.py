"""Which objects a controller takes as its own, and which it lets go: one rule for all that own others by a
selector.

An object without a controller that the selector matches is adopted; one of the owner's that it does not match
any more is released. Before the first adoption the owner is read live, so that nothing is given to an owner
that is gone and whose name another one has. Source: upstream's ControllerRefManager.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import Any, Generic, TypeVar, assert_never

import msgspec

from mooring.kube.client import Client
from mooring.kube.decision import Decision
from mooring.kube.errors import conflict
from mooring.kube.informer import Informer
from mooring.kube.objects import Object
from mooring.kube.owners import owner_reference
from mooring.kube.reason import Reason
from mooring.kube.selectors import LabelSelector

T = TypeVar("T", bound=Object)


class Action(Enum):
    """What to do about the owner of an object."""

    KEEP = "Keep"  # it is the owner's, and stays so
    ADOPT = "Adopt"  # set its owner reference
    RELEASE = "Release"  # remove its owner reference
    LEAVE = "Leave"  # it is none of the owner's


_OURS = Decision(Action.KEEP, Reason("Owned", "the owner controls it, and the selector matches it"))
_SELECTED = Decision(Action.ADOPT, Reason("Selected", "the selector matches it, and it has no controller"))
_UNMATCHED = Decision(Action.RELEASE, Reason("NotSelected", "its labels do not match the selector any more"))
_FOREIGN = Decision(
    Action.LEAVE, Reason("NotOwned", "another object controls it, or the selector does not match it")
)
_ENDING = Decision(Action.LEAVE, Reason("Deleting", "it, or the owner, is being deleted"))


def decide(owner: Object, matches: bool, obj: Object) -> Decision[Action]:
    """Returns what to do about one object of the owner's namespace. `matches`: whether it is what the owner
    selects."""
    if obj.controller is not None:
        if obj.controller.uid != owner.uid:
            return _FOREIGN
        if matches:
            return _OURS
        return _ENDING if owner.deleting else _UNMATCHED
    if not matches:
        return _FOREIGN
    return _ENDING if owner.deleting or obj.deleting else _SELECTED


class Adopter(Generic[T]):
    """Adopts and releases objects of one kind; `cache` is given what was written. `finalizer`: one that every
    object of an owner has; it comes and goes with the owner reference, in the same write."""

    def __init__(self, client: Client, cache: Informer[T], finalizer: str | None = None) -> None:
        self._client = client
        self._cache = cache
        self._finalizer = finalizer

    async def settle(
        self,
        owner: Object,
        selector: LabelSelector,
        objects: Iterable[T],
        *,
        fits: Callable[[T], bool] = lambda obj: True,
    ) -> list[T]:
        """Adopts and releases, and returns the objects that are the owner's then.

        Raises Conflict if something was written meanwhile, or if the owner is not there any more."""
        found: list[T] = []
        verified = False
        for obj in objects:
            action = decide(owner, selector.matches(obj.metadata.labels) and fits(obj), obj).action
            match action:
                case Action.KEEP:
                    found.append(obj)
                case Action.ADOPT:
                    if not verified:
                        await self._verify(owner)
                    verified = True
                    references = [*_references(obj), owner_reference(owner)]
                    found.append(await self._set(obj, references, owned=True))
                case Action.RELEASE:
                    references = [each for each in _references(obj) if each["uid"] != owner.uid]
                    await self._set(obj, references, owned=False)
                case Action.LEAVE:
                    pass
                case _:
                    assert_never(action)
        return found

    async def _verify(self, owner: Object) -> None:
        live = await self._client.get(type(owner), owner.name, owner.namespace)
        if live.uid != owner.uid or live.deleting:
            kind = owner.RESOURCE.kind
            message = f"{kind} {owner.key} adopts nothing: it is being deleted, or another one has its name"
            raise conflict(message)

    async def _set(self, obj: T, references: Sequence[dict[str, Any]], *, owned: bool) -> T:
        metadata: dict[str, Any] = {"ownerReferences": list(references)}
        if self._finalizer is not None:
            others = [each for each in obj.metadata.finalizers if each != self._finalizer]
            metadata["finalizers"] = [*others, *([self._finalizer] if owned else [])]
        written = await self._client.revise(obj, {"metadata": metadata})
        self._cache.accept(written)
        return written


def orphaned_in(obj: Object) -> list[str]:
    """For an index: the namespace of an object that no controller owns."""
    return [obj.namespace] if obj.controller is None else []


def _references(obj: Object) -> list[dict[str, Any]]:
    """Returns all owner references: a merge patch replaces the list."""
    return [msgspec.to_builtins(each) for each in obj.metadata.owner_references]
