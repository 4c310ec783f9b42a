"""A part of a simulated cluster: what can be killed, paused and started anew, with a link of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, Protocol

from mooring.controllers.attacher.controller import AttacherController
from mooring.kube.transport import Request, Response
from mooring.simulation.engine.event_loop import Actor
from mooring.simulation.engine.randomness import stream
from mooring.simulation.engine.trace import Trace
from mooring.simulation.parts.failed_requests import note_answer, note_failure
from mooring.simulation.parts.network import Link, Network
from mooring.simulation.parts.request_trace import (
    ASKING_CONTROLLER,
    TERM,
    RenewalTracer,
    looked_at,
    request_tracer,
)

VOLUMES = "persistentvolumes"
RESTART_S = 1.0
"""A part that ends by itself is started anew after this time, as a supervisor would."""


class PartHost(Protocol):
    """What a part needs of the cluster that it is in. `context` is that of work which outlives the part."""

    seed: int
    trace: Trace
    network: Network
    context: Context

    def actor(self, name: str) -> Actor:
        """A new actor, which ends with the run."""
        ...

    def asker(self) -> str:
        """Which life of which part is at work now."""
        ...


class Part:
    """A process that can be killed, paused and started anew. `begin` is its work; each start is another
    `life`."""

    def __init__(
        self, cluster: PartHost, name: str, token: str, begin: Callable[[Part], Coroutine[Any, Any, Any]]
    ) -> None:
        self.name, self.cluster = name, cluster
        self.link = Link(cluster.network, name, token, stream(cluster.seed, f"link {name}"))
        self._trace_request, self._trace_answer = request_tracer(cluster.trace, name, cluster.asker)
        self.link.on_request, self.link.on_answer = self._requested, self._answered
        self.link.on_failure = note_failure
        self._renewals: RenewalTracer | None = None
        self.life = 0
        self.actor: Actor | None = None
        self._begin = begin
        self._strike_in: int | None = None
        self._strike: Callable[[str], None] = lambda request: None
        self._counts: Callable[[Request], bool] = lambda request: True
        self.on_kill: Callable[[], None] = lambda: None

    def trace_renewals(self) -> None:
        """Tells the trace of the renewals of its Lease, too: of a node that ends its pods without them."""
        self._renewals = RenewalTracer(self.cluster.trace, self.name)

    def _answered(self, request: Request, response: Response) -> None:
        self._trace_answer(request, response)
        note_answer(request, response)
        if self._renewals is not None:
            self._renewals.answered(request, response)

    @property
    def alive(self) -> bool:
        return self.actor is not None and not self.actor.halted

    def start(self) -> None:
        """A new life, if it has none."""
        if self.alive or self.cluster.trace.closed:
            return
        self.life += 1
        actor = self.cluster.actor(self.name)
        self.actor, self._strike_in = actor, None
        actor.start(self._live(actor))

    async def _live(self, actor: Actor) -> None:
        ASKING_CONTROLLER.set("")  # or what switched a machine on would seem to ask for its agent
        TERM.set(0)
        try:
            await self._begin(self)
        except Exception as error:
            self.cluster.trace(
                self.name, "truth.died", error=f"{type(error).__name__}: {error}", _error=error
            )
        if self.actor is actor:
            self.actor = None
        asyncio.get_running_loop().call_later(RESTART_S, self.start, context=self.cluster.context)

    def kill(self) -> None:
        """Ends it at once: no line of it runs any more."""
        if self.actor is not None:
            self.actor.halted = True
            self.actor = None
            self.on_kill()

    def abandon(self) -> Actor | None:
        """Pauses it for good as far as this part is concerned: a successor may start. The caller resumes the
        old one, or does not."""
        actor, self.actor = self.actor, None
        if actor is not None:
            actor.halted = True
        return actor

    def crash_at(self, number: int) -> asyncio.Event:
        """Kills it at its `number`-th request from now, just when that has been sent, and sets the event
        then."""
        return self._struck_at(number, "plan.crashed", self.kill)

    def stall_at(self, number: int) -> asyncio.Event:
        """Pauses it, just when it has sent its `number`-th write from now: not counted are renewals of
        Leases, which tell of nothing that is under way."""
        return self._struck_at(number, "plan.stalled", self._pause, _is_act)

    def doze_at(self, number: int) -> asyncio.Event:
        """The same with its `number`-th look at a volume before it asks the storage for something."""
        return self._struck_at(number, "plan.stalled", self._pause, _is_look)

    def _pause(self) -> None:
        if self.actor is not None:
            self.actor.halted = True

    def _struck_at(
        self,
        number: int,
        kind: str,
        act: Callable[[], None],
        counts: Callable[[Request], bool] = lambda request: True,
    ) -> asyncio.Event:
        struck = asyncio.Event()

        def strike(request: str) -> None:
            self.cluster.trace(self.name, kind, request=request)
            act()
            struck.set()

        self._strike_in, self._strike, self._counts = number, strike, counts
        return struck

    def spare(self) -> None:
        """Nothing strikes it at a request any more."""
        self._strike_in = None

    def _requested(self, request: Request) -> None:
        self._trace_request(request)
        if self._renewals is not None:
            self._renewals.sent(request)
        if self._strike_in is None or not self._counts(request):
            return
        self._strike_in -= 1
        if self._strike_in < 0:
            self._strike_in = None
            self._strike(f"{request.method} {request.path}")


def _is_look(request: Request) -> bool:
    return ASKING_CONTROLLER.get() == AttacherController.name and looked_at(request) == VOLUMES


def _is_act(request: Request) -> bool:
    return request.method != "GET" and "/leases" not in request.path
