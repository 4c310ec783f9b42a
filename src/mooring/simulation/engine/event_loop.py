"""A deterministic event loop: virtual time, one callback a step in a chosen order, and actors that stop
anywhere.

Guarantees:
- Time stands while anything is ready, and then jumps to the next timer.
- What runs next is decided by `choose` alone. Tasks hash by the order of their creation, so that sets of them
  (there are some in asyncio) have the same order in every run, under any PYTHONHASHSEED.
- Nothing ready and no timer is a `Deadlock`; very many steps without time moving are a `Livelock`.
- Threads, sockets, signals and processes of the real world are refused where they are asked for (`Escape`).
- An `Actor` that is halted runs no callback any more, not even a `finally`: that is a `kill -9` at any await,
  or a pause (a long garbage collection, a stopped machine) if it is resumed.
"""

from __future__ import annotations

import asyncio
import itertools
import math
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from datetime import UTC, datetime, timedelta
from functools import cached_property
from heapq import heappop, heappush
from typing import Any, NoReturn

import msgspec

from mooring.simulation.engine.randomness import Choose

START = datetime(2030, 1, 1, tzinfo=UTC)
"""The wall clock's time when a run begins."""
TICKS = 2.0**20
"""Time has ticks of a binary fraction of a second, so sums and differences of times are exact."""
LIVELOCK_CALLBACKS = 20_000


class Deadlock(Exception):
    """Nothing is ready, and nothing ever will be."""


class Livelock(Exception):
    """Callbacks run on and on while no time passes."""


class Escape(Exception):
    """Code of the run asked for a thread, a socket, a signal or a process of the real world."""


class Actor:
    """What is killed, paused and resumed as one: its tasks, and all that these start. `skew`: its clock's
    error, seconds."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.halted = False
        self.skew = 0.0
        self.held: list[_Handle] = []
        self._last_now = (-1.0, START)
        # A task, a timer and a callback inherit the context that they are made in. So the actor is known of
        # all that its tasks start, and production code need not pass it on.
        self.context = copy_context()
        self.context.run(_ACTOR.set, self)

    @cached_property
    def _loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()  # asked for once: it costs a system call before Python 3.12

    def start(self, work: Coroutine[Any, Any, Any], name: str = "") -> asyncio.Task[Any]:
        """Starts the work as a task of this actor."""
        return self._loop.create_task(work, name=name or self.name, context=self.context)

    def resume(self) -> None:
        """Goes on where the actor was halted."""
        assert isinstance(self._loop, SimulationLoop)
        self._loop.release(self)

    def now(self) -> datetime:
        """Its wall clock."""
        seconds = self._loop.time() + self.skew
        if self._last_now[0] != seconds:
            self._last_now = seconds, START + timedelta(seconds=seconds)
        return self._last_now[1]


_ACTOR: ContextVar[Actor | None] = ContextVar("actor", default=None)


def current_actor() -> Actor | None:
    """The actor whose work is being done; None outside of all."""
    return _ACTOR.get()


class _Task(asyncio.Task[Any]):
    def __init__(
        self, number: int, coroutine: Any, loop: asyncio.AbstractEventLoop, name: str, context: Context | None
    ) -> None:
        self._number = number
        super().__init__(coroutine, loop=loop, name=name, context=context)

    def __hash__(self) -> int:
        return (
            self._number
        )  # the default hash is an address: sets of tasks would have another order in each run


class _Handle(msgspec.Struct, eq=False):
    """The part of `asyncio.Handle` and `TimerHandle` that is used. Most of what a run does is to make
    these."""

    at: float
    callback: Callable[..., Any]
    args: tuple[Any, ...]
    context: Context
    cancelled: bool = False

    def cancel(self) -> None:
        self.cancelled = True

    def when(self) -> float:
        return self.at

    def __repr__(self) -> str:
        return f"{self.callback!r} at {self.at:.3f} s"


class SimulationLoop(asyncio.BaseEventLoop):
    """A loop like any other. `choose` picks among the ready callbacks; `steps` counts them."""

    _ready: deque[_Handle]
    _stopping: bool
    get_debug = staticmethod(bool)  # type: ignore[assignment]  # asked of each callback

    def __init__(self, choose: Choose) -> None:
        super().__init__()
        self._choose = choose
        self._time = 0.0
        self._numbers = itertools.count(1)
        self._timers: list[tuple[float, int, _Handle]] = []
        self._livelock = LIVELOCK_CALLBACKS
        self.steps = 0
        self.on_unawaited: Callable[[BaseException], object] = id
        """Is told what a callback raised, or a task that nothing waits for."""
        self.set_task_factory(self._make_task)
        self.set_exception_handler(lambda _, context: self._caught(context.get("exception")))

    def time(self) -> float:
        return self._time

    def _make_task(
        self, loop: asyncio.AbstractEventLoop, coroutine: Any, name: str = "", context: Context | None = None
    ) -> asyncio.Future[Any]:
        number = next(self._numbers)
        task = _Task(number, coroutine, loop, name or f"task {number}", context)
        # A halted actor's tasks never end. asyncio would log each of them when it is collected.
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        return task

    def call_soon(self, callback: Callable[..., Any], *args: Any, context: Context | None = None) -> Any:
        handle = _Handle(self._time, callback, args, copy_context() if context is None else context)
        self._ready.append(handle)
        return handle

    def call_later(
        self, delay: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> Any:
        return self.call_at(self._time + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> Any:
        timer = _Handle(when, callback, args, copy_context() if context is None else context)
        # The number breaks ties: timers of one moment stay in the order in which they were set, and handles
        # need no order.
        heappush(self._timers, (when, next(self._numbers), timer))
        return timer

    def _run_once(self) -> None:
        """Runs one callback after the other, until the loop is stopped.

        In place of `BaseEventLoop._run_once`, which takes what is ready as a batch, in order, and asks the
        selector how long to wait. Here nothing is ever waited for: there is no selector, and time jumps.
        """
        ready, choose = self._ready, self._choose
        while not self._stopping:
            if not ready:
                self._jump()
            # The choice is asked only where there is one, so its number depends on nothing else: a stored run
            # names choices by number.
            if len(ready) > 1:
                number = choose(len(ready))
                handle = ready[number]
                del ready[number]
            else:
                handle = ready.popleft()
            if handle.cancelled:
                continue
            context = handle.context
            actor: Actor | None = context.get(_ACTOR)
            # Kept, not dropped: a pause goes on with it. And never run, not even to cancel: a `finally` would
            # run, which no process does that is killed.
            if actor is not None and actor.halted:
                actor.held.append(handle)
                continue
            self.steps += 1
            if self.steps > self._livelock:
                raise Livelock(f"{LIVELOCK_CALLBACKS} callbacks at {self._time:.3f} s; the last: {handle!r}")
            try:
                context.run(handle.callback, *handle.args)
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:  # asyncio hands it to the loop's handler and goes on; so does this
                self._caught(error)

    def _caught(self, error: BaseException | None) -> None:
        """An error of the simulation itself, or a failed assertion, ends the run, wherever it was raised.

        Every other error that no task waits for is the production code's, as on a real loop.
        """
        if isinstance(error, (Deadlock, Livelock, Escape, AssertionError)):
            raise error
        if error is not None:
            self.on_unawaited(error)

    def whose(self, position: int) -> Actor | None:
        """The actor whose work is at this place among what is ready; None: it is no actor's."""
        return self._ready[position].context.get(_ACTOR)

    def release(self, actor: Actor) -> None:
        """What was held back when the actor was halted is ready now."""
        actor.halted = False
        self._ready.extend(actor.held)
        actor.held.clear()

    def _jump(self) -> None:
        """Moves time to the next timer that is not cancelled; all timers of that moment are ready then."""
        timers, ready = self._timers, self._ready
        while not ready:
            if not timers:
                raise Deadlock(f"at {self._time:.3f} s nothing is ready and no timer is set")
            when, _, timer = heappop(timers)
            if timer.cancelled:
                continue
            # Rounded up to a tick: a sum of delays that is due "now" but for a rounding error would else be
            # due a moment later, in an order that depends on how it was added up.
            if when > self._time:
                self._time, self._livelock = math.ceil(when * TICKS) / TICKS, self.steps + LIVELOCK_CALLBACKS
            ready.append(timer)
            while timers and timers[0][0] <= self._time:
                ready.append(heappop(timers)[2])

    def _asyncgen_finalizer_hook(self, agen: Any) -> None:
        """An asynchronous generator that was dropped half-way is closed by the loop, as asyncio does."""
        if not self.is_closed():
            self.create_task(agen.aclose())

    def call_soon_threadsafe(
        self, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> Any:
        raise Escape("call_soon_threadsafe: there are no threads in a simulation")

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> NoReturn:
        raise Escape(f"run_in_executor: {func} wants a thread; bring a played part in its place")

    def add_signal_handler(self, sig: int, callback: Callable[..., Any], *args: Any) -> NoReturn:
        raise Escape("add_signal_handler: there are no signals in a simulation")

    async def create_connection(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise Escape("create_connection: there are no sockets in a simulation")

    async def create_server(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise Escape("create_server: there are no sockets in a simulation")

    async def subprocess_exec(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise Escape("subprocess_exec: there are no processes in a simulation")

    async def subprocess_shell(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise Escape("subprocess_shell: there are no processes in a simulation")


def end(loop: SimulationLoop, actors: list[Actor]) -> None:
    """Ends every task, also those of halted actors, in the order of their creation; then closes the loop.

    A cancelled task may start others, or swallow its cancellation once: hence several rounds.
    """
    for actor in actors:
        loop.release(actor)
    for _ in range(100):
        pending = sorted((task for task in asyncio.all_tasks(loop)), key=hash)
        if not pending:
            break
        for task in pending:
            task.cancel()
        loop.run_until_complete(asyncio.wait(pending, timeout=60))
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()
