"""A local copy of all objects of a kind, kept current by list and watch.

Guarantees:
- `synced()` returns once the first list is in the cache. A list is streamed where the server can
  (sendInitialEvents), else fetched in pages; it is taken as a whole in both cases, an interrupted one changes
  nothing.
- Changes are applied in the API server's order; an object never goes back to an older version, unless the
  server itself has: it was restored from a backup.
- A dropped watch resumes from the last version seen; a version too old (410), or one that the server has not
  come to (504), leads to a new list, whose differences reach the handlers like any other change. Failures are
  retried with jittered backoff, for ever, and not before the server's Retry-After (ten minutes at the most).
  An object that cannot be read is such a failure: the cache stays as it is, `trouble` names the object, and
  once that is mended or gone, a new list tells the differences.
- Read-your-writes: `accept(obj)` puts the answer of one's own write into the cache at once, and
  `wait_for(version)` returns once the watch has delivered everything up to a version (for deletes).
- Handlers are plain functions, called with (old, new); they must not block and must not raise.

The Kubernetes clients for Python have informers, too. None of those that were tried resumes a watch correctly
after 410 and asks for bookmarks, streaming lists and pages (docs/decisions/http-client.md).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import Generic, TypeVar

import structlog

from mooring.kube.client import Client, WatchEvent
from mooring.kube.errors import (
    Gone,
    Invalid,
    KubeError,
    Throttled,
    TooLargeVersion,
    Unreachable,
    Unreadable,
    conflict,
)
from mooring.kube.metrics import ReflectorMetrics
from mooring.kube.objects import Object

T = TypeVar("T", bound=Object)

Handler = Callable[[T | None, T | None], None]
Indexer = Callable[[T], Iterable[str]]
_Keys = str | dict[str, None]
"""What an index has under one value, in order: mostly a single key, for which a dict would be a waste."""

log = structlog.get_logger(component="informer")

FIRST_RETRY_S = 0.2
LAST_RETRY_S = 10.0


class Informer(Generic[T]):
    """The cache of one kind, in one namespace or in all, narrowed by selectors; of each object, what `keep`
    gives. Over a network, it is so many seconds late as `gather` says, at the most: for kinds of which one
    changes all the time, and nothing hangs on when exactly."""

    def __init__(
        self,
        client: Client,
        kind: type[T],
        *,
        random: Random,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        indexers: dict[str, Indexer[T]] | None = None,
        keep: Callable[[T], T] | None = None,
        gather: float = 0.0,
    ) -> None:
        self.kind = kind
        self._client = client
        self._random = random
        self._namespace = namespace
        self._label_selector = label_selector
        self._field_selector = field_selector
        self._objects: dict[str, T] = {}
        self._keep = keep
        self._gather_s = gather
        self._indexers = indexers or {}
        self._indices: dict[str, dict[str, _Keys]] = {name: {} for name in self._indexers}
        self._handlers: list[Handler[T]] = []
        self._retry = FIRST_RETRY_S  # until the next event of a watch
        self._version = 0
        self._trouble: KubeError | None = None
        self._synced = asyncio.Event()
        self._listed = False  # the cache is what was there at _version
        self._ahead = False  # the server has said that it has not come to _version
        self._streams = True  # until the server says otherwise
        self._metrics = ReflectorMetrics(kind.RESOURCE.plural)
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        self.on_trouble: Callable[[], None] = lambda: None
        """Called when `trouble` says something else."""

    def add_handler(self, handler: Handler[T]) -> None:
        """Calls `handler(old, new)` on each change: old is None for an addition, new is None for a deletion.
        An object in the place of another one, of which a watch that was broken tells so, is both, one after
        the other."""
        self._handlers.append(handler)

    def when_gone(self, forget: Callable[[T], object]) -> None:
        """Calls `forget(old)` with each object that is gone, whether or not another one is in its place."""

        def told(old: T | None, new: T | None) -> None:
            if old is not None and new is None:
                forget(old)

        self._handlers.append(told)

    def get(self, key: str) -> T | None:
        """The object of "namespace/name" (or "name"), as the cache knows it."""
        return self._objects.get(key)

    def knows(self, item: T) -> bool:
        """Whether the cache has this very object: not if its end was told, also if another has its name."""
        held = self._objects.get(item.key)
        return held is not None and held.uid == item.uid

    def items(self) -> list[T]:
        """All objects, in the order in which they were first seen."""
        return list(self._objects.values())

    def count(self, index: str, value: str) -> int:
        """How many objects `by_index` would give, in constant time."""
        keys = self._indices[index].get(value, ())
        return 1 if isinstance(keys, str) else len(keys)

    def by_index(self, index: str, value: str) -> list[T]:
        """The objects for which the named indexer gave `value`."""
        keys = self._indices[index].get(value, ())
        if isinstance(keys, str):
            return [self._objects[keys]]
        return [self._objects[key] for key in keys]

    def misplaced(self) -> list[str]:
        """What the indices say otherwise than indices that were made of the same objects now. Nothing, if
        each indexer depends on its object alone. For checks."""
        found: list[str] = []
        for name, indexer in self._indexers.items():
            anew: dict[str, _Keys] = {}
            for key, item in self._objects.items():
                for value in indexer(item):
                    _index(anew, value, key)
            kept = self._indices[name]
            for value in sorted(kept.keys() | anew.keys()):
                here, there = _members(kept.get(value, ())), _members(anew.get(value, ()))
                if here != there:
                    found.append(f"{self.kind.__name__}s by {name} {value!r}: {here}, and not {there}")
        return found

    def untrue(self, last: Mapping[str, tuple[int, bool]]) -> list[str]:
        """What is otherwise here than it was in the API at `version`. `last`: of each key the version of its
        last change, and whether it was there afterwards; what has changed later, or is another namespace's,
        is not compared, and what selectors leave out is not missed. For checks."""
        what, found = self.kind.__name__, list[str]()
        whole = not (self._label_selector or self._field_selector or self._namespace)
        for key, (version, there) in last.items() if self._listed else ():
            held = self._objects.get(key)
            if version > self._version or (held is not None and _version_of(held) == version and there):
                continue
            if held is not None:
                now = f"of version {version}" if there else f"gone since version {version}"
                found.append(f"{what} {key} is {now}, and kept in version {_version_of(held)}")
            elif there and whole:
                found.append(f"{what} {key} is of version {version}, and not kept")
        return found

    @property
    def version(self) -> int:
        """Everything up to this resourceVersion has been applied from list or watch."""
        return self._version

    @property
    def trouble(self) -> KubeError | None:
        """Why the last list or watch failed; None once the server has taken a watch again."""
        return self._trouble

    @property
    def is_synced(self) -> bool:
        """Whether the first list has arrived."""
        return self._synced.is_set()

    async def synced(self) -> None:
        """Returns when the first list has arrived."""
        await self._synced.wait()

    async def wait_for(self, resource_version: str) -> None:
        """Returns when the cache holds everything up to that version."""
        wanted = int(resource_version)
        if self._version >= wanted:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((wanted, future))
        await future

    def accept(self, written: T, *, tell: bool = True) -> None:
        """Puts the answer of one's own write into the cache, unless the watch has already brought that or
        more.

        Handlers need not be called for an object that only this writer has changed so far: a create. In the
        place of one that has gone they are: the watch will not tell of that any more."""
        version = _version_of(written)
        if version > self._version:
            held = self._objects.get(written.key)
            if held is None or _version_of(held) < version:
                another = held is not None and held.uid != written.uid
                self._store(written.key, self._trimmed(written), tell=tell or another)

    async def read_live(self, name: str, namespace: str = "") -> T | None:
        """The object as it is now, which gets into the cache; None if there is none, or no name is given."""
        live = await self._client.find(self.kind, name, namespace) if name else None
        if live is not None:
            self.accept(live)
        return live

    async def same_live(self, known: T) -> T:
        """This very object as it is now, which gets into the cache. Raises NotFound if there is none of its
        name, and Conflict if that is another one."""
        live = await self._client.get(self.kind, known.name, known.namespace)
        self.accept(live)
        if live.uid != known.uid:
            raise conflict(f"{self.kind.RESOURCE.kind} {known.key} is another one by now")
        return live

    async def confirm(self, known: T) -> None:
        """Raises Conflict unless the object is, live, as it is known: before what cannot be taken back. The
        watches of two kinds may be of different age, and what is paired from their caches may never have been
        so; a write is refused then, and a request to a storage, say, is not."""
        live = await self.read_live(known.name, known.namespace)
        if live is None or live.metadata.resource_version != known.metadata.resource_version:
            raise conflict(f"{self.kind.RESOURCE.kind} {known.key} is not as it was decided upon any more")

    async def run(self) -> None:
        """Keeps the cache current until cancelled."""
        while True:
            try:
                if not self._listed and not self._streams:
                    await self._list()
                await self._watch()
            except KubeError as error:
                await self._recover(error)

    async def _recover(self, error: KubeError) -> None:
        if isinstance(error, Invalid) and not self._listed and self._streams:
            self._streams = False
            log.debug("the server streams no lists", kind=self.kind.RESOURCE.plural)
            return
        self._listed = self._listed and not isinstance(error, (Gone, TooLargeVersion, Unreadable))
        self._ahead = self._ahead or isinstance(error, TooLargeVersion)
        self._has(error)
        wait = self._retry * (0.5 + self._random.random())
        if isinstance(error, Throttled):
            wait = max(wait, error.retry_after)
        self._retry = min(self._retry * 2, LAST_RETRY_S)
        tell = log.warning if isinstance(error, Unreadable) else log.debug
        tell("watch failed", kind=self.kind.RESOURCE.plural, error=str(error), retry_s=wait)
        await asyncio.sleep(wait)

    def _has(self, trouble: KubeError | None) -> None:
        before, self._trouble = self._trouble, trouble
        if str(before or "") != str(trouble or ""):
            self.on_trouble()

    async def _list(self) -> None:
        listing = await self._client.list(
            self.kind,
            self._namespace,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
        )
        self._replace(
            {item.key: self._trimmed(item) for item in listing.items}, _number(listing.resource_version)
        )

    def _replace(self, fresh: dict[str, T], version: int) -> None:
        """Makes the cache what was there at a version; newer writes of our own stay.

        Not where the server has gone back behind what it has told: it counts on from there, and gives each
        version once more. One that only lags behind the others lists what they have."""
        undone = self._ahead and version < self._version
        if undone:
            log.warning("the API server has gone back", kind=self.kind.RESOURCE.plural, to=version)
            self._version = version
        self._ahead = False
        self._exchange(fresh, version, undone=undone)
        self._metrics.lists.inc()
        self._advance(version)
        self._listed = True
        self._synced.set()

    def _exchange(self, fresh: dict[str, T], version: int, *, undone: bool) -> None:
        """`undone`: also what is newer than that here."""
        for key, held in list(self._objects.items()):
            if key not in fresh and (undone or _version_of(held) <= version):
                self._store(key, None)
        for key, item in fresh.items():
            held = self._objects.get(key)
            if held is None or _version_of(held) < _version_of(item) or (undone and held != item):
                self._store(key, item)

    async def _watch(self) -> None:
        """Applies what comes until the server ends the watch. Unreachable if that is at once, before anything
        came."""
        began, seen = asyncio.get_running_loop().time(), False
        initial: dict[str, T] | None = None if self._listed else {}
        events = self._client.watch(
            self.kind,
            self._namespace,
            resource_version=str(self._version) if self._listed else "",
            initial_events=not self._listed,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
            gather=self._gather_s,
            taken=lambda: self._has(None),
        )
        self._metrics.watches.inc()
        try:
            async for event in events:
                if initial is None:
                    self.apply(event)
                elif event.initial_events_end:
                    self._replace(initial, _number(event.resource_version))
                    initial = None
                else:
                    self._gather(initial, event)
                if initial is None:  # a list that breaks off again and again at the same place is a failure
                    self._retry = FIRST_RETRY_S
                seen = True
        finally:
            await events.aclose()
        if not seen and asyncio.get_running_loop().time() - began < 1:
            self._metrics.short_watches.inc()
            raise Unreachable(f"the watch of {self.kind.RESOURCE.plural} was ended as soon as it began")

    def apply(self, event: WatchEvent[T]) -> None:
        """Applies an event of a watch, unless the cache holds something newer."""
        version = _number(event.resource_version)
        if event.object is not None:
            key = event.object.key
            held = self._objects.get(key)
            gone = event.type == "DELETED"  # out of sight, perhaps, by the very write that is held
            if held is None or _version_of(held) < version or (gone and _version_of(held) == version):
                self._store(key, None if gone else self._trimmed(event.object))
        self._advance(version)

    def _gather(self, initial: dict[str, T], event: WatchEvent[T]) -> None:
        """Notes one of the initial events, which are to be taken together."""
        if event.object is None:
            return
        if event.type == "DELETED":
            initial.pop(event.object.key, None)
        else:
            initial[event.object.key] = self._trimmed(event.object)

    def _trimmed(self, item: T) -> T:
        return item if self._keep is None else self._keep(item)

    def _store(self, key: str, new: T | None, *, tell: bool = True) -> None:
        old = self._objects.get(key)
        if new is None:
            if old is None:
                return
            del self._objects[key]
        else:
            self._objects[key] = new
        self._reindex(key, old, new)
        if tell:
            self._tell(old, new)

    def _tell(self, old: T | None, new: T | None) -> None:
        another = old is not None and new is not None and old.uid != new.uid
        for handler in self._handlers:
            if another:
                handler(old, None)
                handler(None, new)
            else:
                handler(old, new)

    def _reindex(self, key: str, old: T | None, new: T | None) -> None:
        for name, indexer in self._indexers.items():
            index = self._indices[name]
            before = list(indexer(old)) if old is not None else []
            after = list(indexer(new)) if new is not None else []
            if before != after:
                for value in before:
                    _unindex(index, value, key)
                for value in after:
                    _index(index, value, key)

    def _advance(self, version: int) -> None:
        self._version = max(self._version, version)
        self._metrics.version.set(self._version)
        if not self._waiters:
            return
        due = [future for wanted, future in self._waiters if wanted <= self._version]
        self._waiters = [(wanted, future) for wanted, future in self._waiters if wanted > self._version]
        for future in due:
            if not future.done():
                future.set_result(None)


def _members(keys: _Keys | tuple[()]) -> list[str]:
    return [keys] if isinstance(keys, str) else sorted(keys)


def _index(index: dict[str, _Keys], value: str, key: str) -> None:
    held = index.setdefault(value, key)
    if isinstance(held, str):
        if held != key:
            index[value] = {held: None, key: None}
    else:
        held[key] = None


def _unindex(index: dict[str, _Keys], value: str, key: str) -> None:
    held = index.get(value)
    if held == key:
        del index[value]
    elif isinstance(held, dict):
        held.pop(key, None)
        if not held:
            del index[value]


def _version_of(item: Object) -> int:
    return _number(item.metadata.resource_version or "0")


def _number(resource_version: str) -> int:
    """All of Kubernetes' own are numbers; those of an aggregated API server (Calico's) need not be."""
    try:
        return int(resource_version)
    except ValueError:
        raise Unreadable(f"the resourceVersion {resource_version!r} is no number: none is newer") from None
