"""The object store: every object's current bytes, one version counter, and a window of history.

Guarantees:
- Versions come from one counter for all resources, rise with every write and are never used twice, also
  across crashes.
- A write's future is done only when the log has made it durable. Readers and watchers see durable states
  only.
- Deciding a write and making it are one step: between `head()` and `write()` there is no await, so no other
  writer comes between.
- Writes that arrive while a commit is under way, or in the same turn of the event loop, share the next
  commit.
- After a failed commit no write is accepted until the log has resumed; reads go on. A write of that commit
  that turns out to be durable appears then, under the version that it was given; none that was acknowledged
  is lost.

The store knows no HTTP and nothing of kinds: an object is bytes with a uid, a version, labels and a few
indexed fields.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

import msgspec
import structlog

from mooring.apiserver.errors import Expired, LogCorrupt, Obj, StoreFailed, TooLargeVersion
from mooring.apiserver.store.forked_writes import Performed, Rehearsal, version_bytes
from mooring.apiserver.store.history import Change, ChangeType, Cursor, History, Item, Key
from mooring.apiserver.store.log import Batch, Log, Record
from mooring.apiserver.work_limit import spend

IndexedFields = Callable[[str, Obj], Mapping[str, str]]
"""The selectable fields of an object of a resource."""

WINDOW_CHANGES = 10_000
WINDOW_BYTES = 32 * 1024 * 1024

RESUME_S = 1.0
"""Seconds between two attempts to make a failed log usable again."""

encode = msgspec.json.encode
log = structlog.get_logger(component="store")


def decode(body: bytes) -> Obj:
    """A fresh, mutable copy of a stored object. Counts as work: the cost grows with the object."""
    spend(len(body) >> 3)
    return cast(Obj, msgspec.json.decode(body))


class _Write(msgspec.Struct, frozen=True):
    resource: str
    change: Change
    done: asyncio.Future[Item]


class Collection:
    """The objects of one resource as of the last commit, and their history."""

    def __init__(self) -> None:
        self.items: dict[Key, Item] = {}
        self.history = History()
        self._sorted: list[Key] | None = None

    def apply(self, change: Change) -> None:
        key = change.item.key
        if change.type == "DELETED":
            del self.items[key]
        else:
            self.items[key] = change.item
        if change.type != "MODIFIED":
            self._sorted = None
        self.history.append(change)

    def current(self) -> list[Item]:
        """Every object in order of namespace and name."""
        if self._sorted is None:
            self._sorted = sorted(self.items)
        return [self.items[key] for key in self._sorted]

    def at(self, version: int) -> list[Item]:
        """Every object as of `version`, which the caller knows to be in the window."""
        later = self.history.since(self.history.position(version))
        if not later:
            return self.current()
        # Backwards from now: the window holds what each change replaced, and a list of the past is mostly a
        # few changes old.
        items = dict(self.items)
        for change in reversed(later):
            if change.previous is None:
                del items[change.item.key]
            else:
                items[change.item.key] = change.previous
        return [items[key] for key in sorted(items)]


class Store:
    """Objects by resource and key, recovered from `log` and written through it.

    `window` bounds how many changes, and `window_bytes` how many bytes of them, stay readable for watches and
    paged lists.
    """

    def __init__(
        self,
        log: Log,
        fields: IndexedFields,
        *,
        window: int = WINDOW_CHANGES,
        window_bytes: int = WINDOW_BYTES,
    ) -> None:
        self._log = log
        self._fields = fields
        self.window = window
        self.window_bytes = window_bytes
        self._collections: dict[str, Collection] = {}
        self._order: deque[str] = deque()
        self._bytes = 0
        self._forgotten: list[int] = []
        self._batch: list[_Write] = []
        self._heads: dict[tuple[str, Key], Change] = {}
        self._flush: asyncio.Task[None] | None = None
        self._proposed = 0  # the version of the last write that was decided
        self._settling: list[tuple[int, asyncio.Future[None]]] = []  # done when that version is durable
        self._failure: BaseException | None = None
        self._resuming: asyncio.Task[None] | None = None
        self._rehearsal: Rehearsal | None = None
        recovery = log.recover()
        self.version = self.floor = recovery.floor
        for record in recovery.records:
            self._replay(record)
        self._allocated = self.version
        self._evict()

    def collection(self, resource: str) -> Collection:
        if resource not in self._collections:
            self._collections[resource] = Collection()
        return self._collections[resource]

    def get(self, resource: str, key: Key) -> Item | None:
        """The last committed state of one object."""
        return self.collection(resource).items.get(key)

    def head(self, resource: str, key: Key) -> Item | None:
        """The newest state of one object, committed or being committed: what a write must be computed
        from."""
        # Reads show committed states only (`get`). A write must also see those that are not durable yet: two
        # updates of one version in the same batch would otherwise both pass their precondition.
        change = self._heads.get((resource, key))
        item = (
            self.get(resource, key) if change is None else None if change.type == "DELETED" else change.item
        )
        if self._rehearsal is not None:
            self._rehearsal.note(resource, key, item)
        return item

    def heads(self, resource: str) -> Sequence[Item]:
        """The newest state of every object of a resource, committed or being committed, in no order."""
        newest = dict(self.collection(resource).items)
        for (written, key), change in self._heads.items():
            if written == resource and change.type != "DELETED":
                newest[key] = change.item
            elif written == resource:
                newest.pop(key, None)
        return [*newest.values()]

    def list(self, resource: str, version: int | None = None) -> Sequence[Item]:
        """Every object of a resource, now or as of `version`. Raises `Expired` or `TooLargeVersion`."""
        if version is None:
            return self.collection(resource).current()
        self._check(version)
        return self.collection(resource).at(version)

    def watch(self, resource: str, version: int) -> Cursor:
        """A reader of the changes after `version`. Raises `Expired` or `TooLargeVersion`."""
        self._check(version)
        history = self.collection(resource).history
        return Cursor(history, history.position(version))

    def write(self, resource: str, key: Key, obj: Obj) -> asyncio.Future[Item]:
        """Stores an object under the next version, which is set in its metadata. Done when durable."""
        item = self._item(resource, key, self._next(obj), obj, encode(obj))
        previous = self.head(resource, key)
        return self._propose(resource, Change("MODIFIED" if previous else "ADDED", item, previous))

    def remove(self, resource: str, key: Key, last: Obj) -> asyncio.Future[Item]:
        """Removes an object that exists; `last` is its final state for watchers. Done when durable."""
        item = self._item(resource, key, self._next(last), last, encode(last))
        return self._propose(resource, Change("DELETED", item, self.head(resource, key)))

    def rehearse(self) -> Rehearsal:
        """Records all further writes instead of making them. To be called in a forked copy of the process
        only."""
        # The copy has the parent's `_flush` task, whose loop does not run here: it must not be waited for.
        self._rehearsal = Rehearsal()
        self._allocated, self._flush = self._rehearsal.first_version - 1, None
        return self._rehearsal

    def is_as_seen(self, rehearsal: Rehearsal) -> bool:
        """Whether every object that a rehearsal has read is still at the version that it read."""
        heads = ((self.head(resource, key), version) for (resource, key), version in rehearsal.seen.items())
        return all((head.version if head else 0) == version for head, version in heads)

    def perform(self, rehearsal: Rehearsal) -> Performed:
        """Makes the writes of a rehearsal, just after `is_as_seen`, with no await between. Done when
        durable."""
        performed = Performed()
        for resource, kind, item in rehearsal.writes:
            self._check_alive()
            self._allocated += 1
            performed.versions.append((version_bytes(item.version), version_bytes(self._allocated)))
            body = performed.renumbered(item.body)
            numbered = msgspec.structs.replace(item, version=self._allocated, body=body)
            performed.done.append(
                self._propose(resource, Change(kind, numbered, self.head(resource, item.key)))
            )
        return performed

    async def settled(self) -> None:
        """Returns when every write proposed so far is durable, whatever is proposed meanwhile. Raises
        `StoreFailed`."""
        if self._flush is not None and self.version < self._proposed:
            durable: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._settling.append((self._proposed, durable))
            await durable
        self._check_alive()

    @property
    def trouble(self) -> str:
        """Why writes are refused at the moment; empty if they are accepted."""
        return f"{self._failure}" if self._failure is not None else ""

    async def close(self) -> None:
        """Finishes the writes under way and releases the log."""
        if self._flush is not None:
            await asyncio.wait([self._flush])
        if self._resuming is not None:
            self._resuming.cancel()
            await asyncio.wait([self._resuming])
        self._log.close()

    def _next(self, obj: Obj) -> int:
        # `_allocated` runs ahead of `version` by what waits for a commit. It does not go back when a commit
        # fails: the batch may be on disk under these numbers.
        self._check_alive()
        self._allocated += 1
        obj["metadata"]["resourceVersion"] = str(self._allocated)
        return self._allocated

    def _item(self, resource: str, key: Key, version: int, obj: Obj, body: bytes) -> Item:
        metadata: dict[str, Any] = obj["metadata"]
        return Item(
            key, metadata["uid"], version, metadata.get("labels") or {}, self._fields(resource, obj), body
        )

    def _propose(self, resource: str, change: Change) -> asyncio.Future[Item]:
        done: asyncio.Future[Item] = asyncio.get_running_loop().create_future()
        if self._rehearsal is not None:
            self._heads[resource, change.item.key] = change
            self._rehearsal.writes.append((resource, change.type, change.item))
            self.version = change.item.version
            done.set_result(change.item)
            return done
        self._proposed = change.item.version
        self._batch.append(_Write(resource, change, done))
        self._heads[resource, change.item.key] = change
        # The task begins in the loop's next turn, so all writes that are decided in this turn share one
        # fsync; those that come while it runs share the next one.
        if self._flush is None:
            self._flush = asyncio.get_running_loop().create_task(self._commit_all())
        return done

    async def _commit_all(self) -> None:
        writes: list[_Write] = []
        forgotten: list[int] = []
        try:
            while self._batch:
                writes, self._batch = self._batch, []
                forgotten, self._forgotten = self._forgotten, []
                records = [_record(write) for write in writes]
                durable = self._log.append(Batch(records, forgotten, self.floor))
                if durable is not None:
                    await durable
                self._publish(writes)
        except BaseException as error:
            # Whether the batch is on disk is unknown: the commit may have failed after it was written.
            # Nothing of it is published, and later writes were computed from it, so all of them fail;
            # `_resume` learns from the log which ones were durable after all.
            self._forgotten = forgotten + self._forgotten
            self._fail(error, writes + self._batch)
            if not isinstance(error, Exception):
                raise
            self._resuming = asyncio.get_running_loop().create_task(self._resume())
        finally:
            self._flush = None

    async def _resume(self) -> None:
        while self._failure is not None:
            await asyncio.sleep(RESUME_S)
            try:
                records = await self._log.resume(self.version)
                for record in records:
                    self._replay(record)
            except Exception as error:
                if repr(error) != repr(self._failure):
                    log.warning("the store still cannot be written", error=repr(error))
                self._failure = error
            else:
                self._failure = None
                self._evict()
                for resource in {record.resource for record in records}:
                    self.collection(resource).history.wake()
                log.info("the store is writable again", durable_after_all=len(records))

    def _fail(self, error: BaseException, writes: Iterable[_Write]) -> None:
        """Fails these writes, whose outcome is unknown, and refuses further ones until the log has
        resumed."""
        log.error("the store cannot be written; writes are refused until it can", error=str(error))
        self._failure = error
        self._heads.clear()
        self._batch = []
        waiting = [*(write.done for write in writes), *(durable for _, durable in self._settling)]
        self._settling = []
        for each in waiting:
            if not each.done():
                each.set_exception(self._failed())
                each.exception()  # marks it as retrieved: the request that waited may have been cancelled

    def _failed(self) -> StoreFailed:
        return StoreFailed(
            f"no object can be written now, and whether the last ones were is not known: {self._failure}"
        )

    def _check_alive(self) -> None:
        if self._failure is not None:
            raise self._failed() from self._failure

    def check_not_future(self, version: int) -> None:
        """Raises `TooLargeVersion` for a version that does not exist yet."""
        if version > self.version:
            raise TooLargeVersion(version, self.version)

    def _check(self, version: int) -> None:
        self.check_not_future(version)
        if version < self.floor:
            raise Expired(f"too old resource version: {version} ({self.floor})")

    def _publish(self, writes: Iterable[_Write]) -> None:
        touched: dict[str, None] = {}  # in order
        for write in writes:
            self._apply(write.resource, write.change)
            touched[write.resource] = None
            # A later write of this object may wait for the next commit: then that one stays the head.
            if self._heads.get((write.resource, write.change.item.key)) is write.change:
                del self._heads[write.resource, write.change.item.key]
            if not write.done.done():
                write.done.set_result(write.change.item)
        self._tell_settled()
        self._evict()
        for resource in touched:
            self.collection(resource).history.wake()

    def _tell_settled(self) -> None:
        due = [each for each in self._settling if each[0] <= self.version]
        self._settling = [each for each in self._settling if each[0] > self.version]
        for _, durable in due:
            if not durable.done():  # the request that waited may have been cancelled
                durable.set_result(None)

    def _apply(self, resource: str, change: Change) -> None:
        self.collection(resource).apply(change)
        self.version = change.item.version
        self._order.append(resource)
        self._bytes += len(change.item.body)

    def _evict(self) -> None:
        while len(self._order) > self.window or (self._bytes > self.window_bytes and len(self._order) > 1):
            change = self.collection(self._order.popleft()).history.evict()
            self._bytes -= len(change.item.body)
            self.floor = change.item.version
            if change.previous is not None:
                self._forgotten.append(change.previous.version)
            if change.type == "DELETED":
                self._forgotten.append(change.item.version)

    def _replay(self, record: Record) -> None:
        key = (record.namespace, record.name)
        item = self._item(record.resource, key, record.version, _read_back(record), record.body)
        previous = self.get(record.resource, key)
        kind: ChangeType = "DELETED" if record.deleted else "MODIFIED" if previous else "ADDED"
        if record.version > self.floor:
            self._apply(record.resource, Change(kind, item, previous))
        else:
            self.collection(record.resource).items[key] = item


def _read_back(record: Record) -> Obj:
    """The object of a record. Raises LogCorrupt for one that is not what was written under that version."""
    where = f"{record.resource} {record.namespace}/{record.name} of version {record.version}"
    try:
        obj = decode(record.body)
        metadata = obj["metadata"]
        named = (metadata.get("namespace") or "", metadata["name"]) if "name" in metadata else None
        intact = bool(metadata["uid"]) and named in (None, (record.namespace, record.name))
        intact = intact and metadata["resourceVersion"] == str(record.version)
    except (msgspec.DecodeError, UnicodeDecodeError, LookupError, TypeError, AttributeError) as error:
        raise LogCorrupt(f"{where} does not read back: {error!r}") from error
    if not intact:
        raise LogCorrupt(f"{where} does not read back: it holds another object or version")
    return obj


def _record(write: _Write) -> Record:
    namespace, name = write.change.item.key
    deleted = write.change.type == "DELETED"
    return Record(write.change.item.version, write.resource, namespace, name, deleted, write.change.item.body)
