"""Every kind that one server serves: the built-in ones, and those of the CustomResourceDefinitions in its
store.

A definition takes effect with its commit: every request after that finds the new kinds.
"""

from __future__ import annotations

from mooring.apiserver.errors import Obj
from mooring.apiserver.objects.custom.kinds import kinds_of
from mooring.apiserver.objects.kinds import BUILT_IN, KINDS, Kinds
from mooring.apiserver.objects.strategies.definitions import STORAGE, is_established
from mooring.apiserver.store.object_store import Store, decode
from mooring.apiserver.work_limit import NO_LIMIT, limited


class Catalog:
    """The kinds of one store."""

    def __init__(self, store: Store) -> None:
        self._definitions = store.collection(STORAGE)
        self._seen: int | None = None
        self._kinds = BUILT_IN

    @property
    def kinds(self) -> Kinds:
        """The kinds as of the last commit; the same value as long as no definition changes."""
        if self._seen != self._definitions.history.end:
            with limited(NO_LIMIT):  # it is not this request's alone
                self._kinds = _with(self.definitions())
            self._seen = self._definitions.history.end
        return self._kinds

    def definitions(self) -> list[Obj]:
        """Every committed definition."""
        return [decode(item.body) for item in self._definitions.current()]


def _with(definitions: list[Obj]) -> Kinds:
    """The built-in kinds and those of `definitions`; none of these takes the place of a built-in one."""
    served = [kind for each in definitions if is_established(each) for kind in kinds_of(each)]
    custom = [kind for kind in served if kind.storage not in BUILT_IN.by_storage]
    return Kinds((*KINDS, *custom)) if custom else BUILT_IN
