"""A work queue of keys.

Guarantees:
- *De-duplicating*: a key added many times before it is taken is taken once.
- *One worker for a key*: a key that is being worked on is not handed out again; if it is added meanwhile, it
  is handed out once more after `done`. So nothing that is added is lost, and no key is worked on twice at a
  time.
- *Delaying*: `add_after` adds a key after a time; of two delays of one key the one that ends first counts.
- *Backoff*: `add_backoff` delays a key by 500 ms, doubling to 2 min 2 s, until `forget`. `run` forgets a key
  whose handler has neither raised nor asked for it.
- *Rest*: a key whose handler has asked for that with `rest` is handed out again when it has rested, and not
  before, whatever adds it. It counts as worked on, and its worker is free.
- *As many workers as there is work*, up to the number that `run` is given: one is started when none is idle.
- *First come, first served* among keys that are ready; or the newest first, of what came before there were
  workers.
- `close` lets running work end and hands out nothing more.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from functools import cached_property
from typing import Generic, TypeVar

import structlog

from mooring.kube.metrics import QueueMetrics

K = TypeVar("K")

log = structlog.get_logger(component="workqueue")

FIRST_DELAY_S = 0.5
LAST_DELAY_S = 122.0
MOST_DOUBLINGS = 64
"""More than any delay has, and fewer than a float can take: a key may fail for days."""


def _start_none() -> None:
    """Starts no worker: there are none yet, or as many as there may be."""


class QueueClosed(Exception):
    """The queue hands out nothing more."""


class WorkQueue(Generic[K]):
    """Keys to be worked on."""

    def __init__(
        self, *, name: str = "", first_delay: float = FIRST_DELAY_S, last_delay: float = LAST_DELAY_S
    ) -> None:
        self._name = name  # for the log
        self._metrics = QueueMetrics(name)
        self._ready: deque[K] = deque()  # every element is in _dirty and not in _working
        self._dirty: dict[K, float] = {}  # wants work, since when; without workers: when it was added last
        self._working: dict[K, float] = {}  # is being worked on, since when
        self._timers: dict[K, tuple[float, asyncio.TimerHandle]] = {}
        self._failures: dict[K, int] = {}
        self._resting: dict[K, float] = {}  # is being worked on, and rests for so long afterwards
        self._first_delay = first_delay
        self._last_delay = last_delay
        self._wakeup: deque[asyncio.Future[None]] = deque()
        self._hire: Callable[[], None] = _start_none
        self._closed = False
        self._ended = asyncio.Event()

    @cached_property
    def _loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()  # asked for once: it costs a system call before Python 3.12

    def _now(self) -> float:
        return self._loop.time()

    def __contains__(self, key: K) -> bool:
        """Whether anything is going to happen about `key`: it wants work, is being worked on, or has a
        timer."""
        return key in self._dirty or key in self._working or key in self._timers

    def __len__(self) -> int:
        return len(self._dirty)

    def is_delayed(self, key: K) -> bool:
        """Whether `key` waits for a time: that of its backoff, or of `add_after`. To `add` it would end
        that."""
        return key in self._timers

    def add(self, key: K) -> None:
        """Wants work on `key` now."""
        self._cancel_timer(key)
        if self._closed:
            return
        if key in self._dirty:
            if self._hire is _start_none:
                self._dirty[key] = self._now()
            return
        self._dirty[key] = self._now()
        self._metrics.adds.inc()
        self._metrics.depth.inc()
        if key not in self._working:
            self._push(key)

    def add_after(self, key: K, seconds: float) -> None:
        """Wants work on `key` after `seconds`; an earlier time already set stays."""
        if seconds <= 0:
            self.add(key)
            return
        due = self._now() + seconds
        held = self._timers.get(key)
        if self._closed or (held is not None and held[0] <= due):
            return
        self._cancel_timer(key)
        self._timers[key] = (due, self._loop.call_at(due, self._fire, key))

    def add_backoff(self, key: K) -> float:
        """Wants work on `key` after its backoff, which doubles; returns that delay in seconds."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        delay = min(self._first_delay * 2 ** min(failures, MOST_DOUBLINGS), self._last_delay)
        self._metrics.retries.inc()
        self.add_after(key, delay)
        return delay

    def rest(self, key: K, seconds: float) -> None:
        """For the handler of `key`: it is to be handed out again after so many seconds, and not before."""
        self._resting[key] = seconds

    def forget(self, key: K) -> None:
        """Ends the backoff of `key`."""
        self._failures.pop(key, None)

    async def get(self) -> K:
        """The next key; QueueClosed when there will be none. Call `done` with it afterwards."""
        while not self._ready:
            if self._closed:
                raise QueueClosed
            future: asyncio.Future[None] = self._loop.create_future()
            self._wakeup.append(future)
            try:
                await future
            except asyncio.CancelledError:
                self._wake_next()  # in case this one had been woken: the key is another's now
                raise
        key = self._ready.popleft()
        self._working[key] = now = self._now()
        self._metrics.depth.dec()
        self._metrics.waited.observe(now - self._dirty.pop(key))
        return key

    def done(self, key: K) -> None:
        """Work on `key` has ended; if it was added meanwhile, it is handed out again."""
        self._metrics.worked.observe(self._now() - self._working.pop(key))
        if key in self._dirty:
            self._push(key)

    def newest_first(self) -> None:
        """What waits is handed out by when it was added last, the newest first. For a new leader: the
        latest change is the one that its predecessor has not acted upon."""
        self._ready = deque(sorted(self._ready, key=self._dirty.__getitem__, reverse=True))

    def close(self) -> None:
        """Drops the keys that wait, and wakes the workers that wait for keys."""
        self._closed = True
        self._ended.set()
        for _, timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._ready.clear()
        self._metrics.depth.dec(len(self._dirty))
        self._dirty.clear()
        while self._wakeup:
            self._wake_next()

    async def run(self, workers: int, handler: Callable[[K], Awaitable[None]]) -> None:
        """Works on keys with up to that many workers until closed. A handler that raises gets its key back
        after backoff."""
        context, hired = copy_context(), 0
        async with asyncio.TaskGroup() as group:

            def hire() -> None:
                nonlocal hired
                if hired < workers:
                    hired += 1
                    group.create_task(self._work(handler), context=context)

            for _ in self._ready:
                hire()
            self._hire = hire
            try:
                await self._ended.wait()
            finally:
                self._hire = _start_none

    async def _work(self, handler: Callable[[K], Awaitable[None]]) -> None:
        while True:
            try:
                key = await self.get()
            except QueueClosed:
                return
            failures = self._failures.get(key)
            try:
                await handler(key)
            except Exception as error:
                delay = self.add_backoff(key)
                log.warning(
                    "work failed",
                    queue=self._name,
                    key=str(key),
                    error=f"{type(error).__name__}: {error}",
                    retry_s=delay,
                )
            else:
                if self._failures.get(key) == failures:
                    self.forget(key)
            finally:
                self._end(key)

    def _end(self, key: K) -> None:
        """The handler has ended."""
        if (seconds := self._resting.pop(key, None)) is None:
            self.done(key)
        else:
            self._loop.call_later(seconds, self._rested, key)

    def _rested(self, key: K) -> None:
        self.add(key)
        self.done(key)

    def _fire(self, key: K) -> None:
        self._timers.pop(key, None)
        self.add(key)

    def _cancel_timer(self, key: K) -> None:
        held = self._timers.pop(key, None)
        if held is not None:
            held[1].cancel()

    def _push(self, key: K) -> None:
        self._ready.append(key)
        if not self._wake_next():
            self._hire()

    def _wake_next(self) -> bool:
        """Wakes an idle worker. Returns whether there was one."""
        while self._wakeup:
            future = self._wakeup.popleft()
            if not future.done():
                future.set_result(None)
                return True
        return False
