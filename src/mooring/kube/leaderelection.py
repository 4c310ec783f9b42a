"""Leader election: of several processes that could do the work, the one that holds the Lease does it.

The record is client-go's: holderIdentity, leaseDurationSeconds, acquireTime, renewTime, leaseTransitions.

Guarantees:
- *A candidate waits until the holder has stopped*: it takes a lease only when it has watched one record
  unchanged for that record's leaseDurationSeconds on its own clock, or when the lease was released. A holder
  of ours says in the record when it will have stopped by itself; after that time, and a quarter more for
  clocks that run apart, it need not be waited for. Stamps of other clocks decide nothing. A lease that is
  deleted is not released: its holder is waited for all the same (client-go's candidates are not so patient).
- *A leader stops before its lease can be taken*: its time counts from the moment before its last successful
  renewal was sent. `renew_deadline` after that moment the work is cancelled, and no write of the work is sent
  any more, even if the event loop was blocked or the machine asleep meanwhile, or the work ignores its
  cancellation. (A write in flight cannot be called back: a write that depends on a decision carries a
  resourceVersion for that. A virtual machine that its host stops and resumes notices nothing of it.)
- *A candidate is ready*: while it stands by it keeps its caches filled; it cannot write then.
- *One write wins*: each write of the lease carries the resourceVersion that it was computed from.
- The lease is released only after the work has ended; after a release the next candidate need not wait.

Hand-written, because the leader election of the official Python client runs in threads, counts by the wall
clock (a clock that is set moves its deadlines), and calls a callback at the end without stopping the work.
(Tried with version 37.0: renewals failed, `onstopped_leading` was called when the deadline was over, and the
work of `onstarted_leading` went on, two seconds later as well.)

It knows nothing of controllers: a `Candidacy` is anything that can follow and lead.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, NamedTuple, Protocol

import structlog

from mooring.kube.client import Client
from mooring.kube.errors import Conflict, KubeError, NotFound, NotLeading
from mooring.kube.metrics import note_leading
from mooring.kube.objects import Lease
from mooring.kube.selectors import field_equals
from mooring.kube.times import Now, format_micro_time
from mooring.kube.transport import Request, Response, Transport
from mooring.this_boot import boottime

log = structlog.get_logger(component="leaderelection")

JITTER = 1.2  # client-go's: a candidate waits one to 2.2 retry periods
NAMESPACE = "kube-system"

Work = Callable[[Client], Awaitable[None]]


class Candidacy(Protocol):
    """What one candidate does until it has lost the lease. Its client reads at any time, and writes while it
    leads."""

    async def follow(self) -> None:
        """Runs from the beginning on, also while it leads, until it is cancelled."""
        ...

    async def lead(self) -> None:
        """Runs while the lease is held. When it returns, the candidate is done."""
        ...


class _Cold:
    """A work that knows nothing before it leads."""

    def __init__(self, work: Work, client: Client) -> None:
        self._work = work
        self._client = client

    async def follow(self) -> None:
        await asyncio.Event().wait()

    async def lead(self) -> None:
        await self._work(self._client)


STOPS_AFTER = "mooring.dev/leader-stops-after"
"""On a Lease: "<seconds> <identity>": so long after its last renewal that holder does nothing any more.
A holder of another program may leave it there, so it counts only for the identity that it names."""
APART = 1.25
"""How much faster one clock may run than another."""


class LeaseLost(KubeError):
    """The lease could not be renewed in time, or is another's."""


class Timing(NamedTuple):
    """Seconds. A lease is valid for `lease_duration`; a leader that could not renew it for `renew_deadline`
    stops."""

    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0


class LeaderElector:
    """A candidate for the lease `name`. `identity` must be its alone: after a restart it is another. `clock`:
    seconds, which count on while the machine sleeps."""

    def __init__(
        self,
        client: Client,
        name: str,
        *,
        identity: str,
        now: Now,
        random: Random,
        namespace: str = NAMESPACE,
        timing: Timing = Timing(),  # noqa: B008 - immutable
        clock: Callable[[], float] = boottime,
    ) -> None:
        if not timing.retry_period * JITTER < timing.renew_deadline < timing.lease_duration:
            raise ValueError(f"{timing}: it must be 1.2 × retry_period < renew_deadline < lease_duration")
        self.identity = identity
        self.name = name
        self._client = client
        self._namespace = namespace
        self._now = now
        self._random = random
        self._timing = timing
        self._clock = clock
        self._lease: Lease | None = None  # the record as last seen
        self._seen_at = 0.0  # when that record was first seen
        self._deadline = 0.0  # until then this candidate leads, by the event loop's clock
        self._ends = 0.0  # and until then by the one that does not stand while the machine sleeps
        self._deleted_until = 0.0  # until then another may lead whose record is gone

    @property
    def leading(self) -> bool:
        """Whether the work may act at this moment."""
        return asyncio.get_running_loop().time() < self._deadline and self._clock() < self._ends

    async def run(self, work: Work) -> None:
        """Stands by until the lease is ours, then runs `work` once; stands by again when the lease is lost.

        `work` must start from nothing each time. Returns when it returns; what it raises comes as an
        ExceptionGroup.
        """
        await self.run_candidate(lambda client: _Cold(work, client))

    async def run_candidate(self, make: Callable[[Client], Candidacy]) -> None:
        """The same for a candidacy, which is made anew for each time."""
        guarded = self._client.elected(_WhileLeading(self, self._client.transport), lambda: self.leading)
        while await self._stand(make(guarded)):
            log.warning("lost the lease, standing by", lease=self.name, identity=self.identity)

    async def _stand(self, candidate: Candidacy) -> bool:
        """Follows, waits for the lease, leads; whether that was ended by the loss of the lease."""
        async with asyncio.TaskGroup() as group:
            following = group.create_task(candidate.follow(), name=f"follow {self.name}")
            await self._acquire()
            lost = await self._lead(candidate)
            following.cancel()
        return lost

    async def _lead(self, candidate: Candidacy) -> bool:
        note_leading(self.name, True)
        log.info("leading", lease=self.name, identity=self.identity)
        lost = False
        try:
            async with asyncio.TaskGroup() as group:
                keeping = group.create_task(self._keep(), name=f"lease {self.name}")
                await candidate.lead()
                keeping.cancel()
        except* (LeaseLost, NotLeading) as error:
            log.warning("lease lost", lease=self.name, error=str(error.exceptions[0]))
            lost = True
        finally:
            note_leading(self.name, False)
            await self._release()
        return lost

    async def _acquire(self) -> None:
        while True:
            if await self._attempt():
                return
            await self._stand_by(self._timing.retry_period * (1 + JITTER * self._random.random()))

    async def _stand_by(self, seconds: float) -> None:
        """Waits, but not past the moment at which the lease is free. Renewals are followed meanwhile: a
        candidate that sees a renewal at once waits no longer than the lease says."""
        loop = asyncio.get_running_loop()
        moment = until = loop.time() + seconds
        with contextlib.suppress(KubeError, TimeoutError):
            if self._lease is None:  # another candidate was quicker: its lease is counted from now
                async with asyncio.timeout_at(until):
                    await self._look()
            while self._lease is not None and (moment := self._free_at(self._lease, until)) > loop.time():
                async with asyncio.timeout_at(moment):
                    await self._next_renewal(self._lease)
        await asyncio.sleep(max(0.0, moment - loop.time()))

    def _free_at(self, lease: Lease, until: float) -> float:
        """When this lease ends, if it is held and that is earlier."""
        return min(until, self._held_until(lease)) if self._valid(lease) else until

    async def _look(self) -> None:
        self._observe(await self._client.find(Lease, self.name, self._namespace))

    async def _next_renewal(self, lease: Lease) -> None:
        """Waits until the record is written again; KubeError if that cannot be told."""
        version, selector = lease.metadata.resource_version, field_equals("metadata.name", self.name)
        events = self._client.watch(Lease, self._namespace, resource_version=version, field_selector=selector)
        async with contextlib.aclosing(events):
            async for event in events:
                if event.object is not None:
                    self._observe(event.object if event.type != "DELETED" else None)
                    return
        raise LeaseLost(f"the watch of lease {self._namespace}/{self.name} has ended")

    async def _keep(self) -> None:
        """Renews until it cannot; LeaseLost then, at the deadline at the latest."""
        while self.leading:
            loop = asyncio.get_running_loop()
            await asyncio.sleep(min(self._timing.retry_period, self._deadline - loop.time()))
            if self.leading:
                await self._attempt()
        raise LeaseLost(f"lease {self._namespace}/{self.name} was not renewed by {self.identity}")

    async def _attempt(self) -> bool:
        """Tries once to take or to renew the lease; whether we lead. Failures of the API server are not
        raised."""
        began, sent = asyncio.get_running_loop().time(), self._clock()
        # Two attempts fit before the deadline, and a renewal that hangs does not outlast it.
        limit = began + self._timing.renew_deadline / 2
        try:
            async with asyncio.timeout_at(min(limit, self._deadline) if self.leading else limit):
                taken = await self._take()
        except (Conflict, NotFound):
            self._lease = None  # read it next time
        except (KubeError, TimeoutError) as error:
            log.info("lease not written", lease=self.name, error=str(error) or "no answer in time")
        else:
            self._deadline = began + self._timing.renew_deadline if taken else 0.0
            self._ends = sent + self._timing.renew_deadline
        return self.leading

    async def _take(self) -> bool:
        if not self._ours(self._lease):
            await self._look()
        lease = self._lease
        if lease is None and asyncio.get_running_loop().time() < self._deleted_until:
            return False
        if lease is None:
            metadata = {"name": self.name, "namespace": self._namespace, **self._promise()}
            body = {"metadata": metadata, "spec": self._record(None)}
            self._observe(await self._client.create(Lease, body, self._namespace))
            return True
        if not self._ours(lease) and self._valid(lease):
            return False
        self._observe(await self._write(lease, self._record(lease)))
        return True

    def _ours(self, lease: Lease | None) -> bool:
        return lease is not None and lease.spec.holder_identity == self.identity

    def _valid(self, lease: Lease) -> bool:
        """Whether its holder may still act. The time counts from when *we* saw the record first."""
        return bool(lease.spec.holder_identity) and asyncio.get_running_loop().time() < self._held_until(
            lease
        )

    def _held_until(self, lease: Lease) -> float:
        return self._seen_at + min(lease.spec.lease_duration_seconds or 0.0, _stops_after(lease) * APART)

    def _observe(self, lease: Lease | None) -> None:
        if lease is None and self._lease is not None and not self._ours(self._lease):
            self._deleted_until = self._held_until(self._lease) if self._valid(self._lease) else 0.0
        if lease is None or self._lease is None or lease.spec != self._lease.spec:
            self._seen_at = asyncio.get_running_loop().time()
        self._lease = lease

    def _promise(self) -> dict[str, Any]:
        return {"annotations": {STOPS_AFTER: f"{self._timing.renew_deadline:g} {self.identity}"}}

    def _record(self, old: Lease | None) -> dict[str, Any]:
        stamp = format_micro_time(self._now())
        ours = old is not None and self._ours(old)
        transitions = 0 if old is None else (old.spec.lease_transitions or 0) + (0 if ours else 1)
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": round(self._timing.lease_duration),
            "acquireTime": (old.spec.acquire_time if old is not None and ours else None) or stamp,
            "renewTime": stamp,
            "leaseTransitions": transitions,
        }

    async def _write(self, lease: Lease, record: dict[str, Any]) -> Lease:
        return await self._client.patch(
            Lease,
            self.name,
            {"metadata": self._promise(), "spec": record},
            self._namespace,
            uid=lease.uid,
            resource_version=lease.metadata.resource_version,
        )

    async def _release(self) -> None:
        """Gives back a lease that is ours, as client-go does; what fails here only makes the next one
        wait."""
        self._deadline = 0.0
        lease = self._lease
        if lease is None or not self._ours(lease):
            return
        record = {
            "holderIdentity": "",
            "leaseDurationSeconds": 1,
            "renewTime": format_micro_time(self._now()),
        }
        try:
            async with asyncio.timeout(self._timing.retry_period):
                self._observe(await self._write(lease, record))
        except (KubeError, TimeoutError) as error:
            log.info("lease not released", lease=self.name, error=str(error) or "no answer in time")
            self._lease = None


def _stops_after(lease: Lease) -> float:
    """Seconds after its last renewal from which on the holder does nothing; infinite if it has not said
    so."""
    seconds, _, holder = lease.metadata.annotations.get(STOPS_AFTER, "").partition(" ")
    if holder and holder == lease.spec.holder_identity:
        with contextlib.suppress(ValueError):
            return float(seconds)
    return math.inf


class _WhileLeading:
    """The transport of a candidate: sends no write unless its elector leads."""

    def __init__(self, elector: LeaderElector, inner: Transport) -> None:
        self._elector = elector
        self._inner = inner

    async def send(self, request: Request) -> Response:
        if request.method != "GET" and not self._elector.leading:
            raise NotLeading(
                f"{request.method} {request.path} was not sent: {self._elector.identity} does not hold the lease "
                f"{self._elector.name}; its present holder does the work"
            )
        return await self._inner.send(request)

    async def close(self) -> None:
        """The connection is the elector's client's."""
