"""The Lease of a Node's name: one agent for one name, and the heartbeat of that agent.

A cloned machine, a second root directory or a copied kubeconfig gives two agents the same name. Both would
run the node's pods and mount its volumes, and the boot ID of the second would look like a reboot of the
first, which releases volumes. So an agent holds its name's Lease before it writes anything else, mounts or
unmounts anything.

- Who holds it is written in an annotation: boot ID, machine ID, and a random ID that an agent's root
  directory keeps, so that an agent that is restarted knows itself. The spec is as upstream's kubelets have
  it.
- The Lease is taken at once by the same agent in the same boot, after a shutdown that gave it back, or if the
  supervisor or BMC that switches the machine on and off says that the holder's boot is over.
- Else it is taken only if its holder misses a whole renewal: it is looked at for one and a half renewal
  intervals, on this machine's own monotonic clock. A renewal in that time is another agent's:
  `HeldByAnother`.
- Every renewal carries the resourceVersion of the Lease as this agent knows it. A holder whose Lease is
  another's by now, or is renewed by an agent that knows no such annotation, learns it by its next renewal and
  looks on likewise: one that is silent does not work (a restored backup of the API server says so of every
  node), one that renews does.

What hangs on its renewals (`self_fence`) is told before each is sent and after it was acknowledged, and may
announce something with it, in the same write. What this node states about its peers goes with them, too.
Then a renewal that is not answered in time is given up, and another one sent on a new connection: after a
short partition an old one stands still for as long again.

It must not know what the agent does with its name. Upstream's kubelets have no such rule.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec
import structlog

from mooring.kube.client import Client
from mooring.kube.errors import Conflict, KubeError, NotFound, Unreachable
from mooring.kube.objects import Lease
from mooring.kube.times import Now, format_micro_time
from mooring.node.options import AgentOptions
from mooring.node.self_fence.keeper import Heartbeat, NothingToFeed
from mooring.volumes.peers import STATEMENTS
from mooring.volumes.self_fence import ANNOUNCEMENT

T = TypeVar("T")
NAMESPACE = "kube-node-lease"
HOLDER = "mooring.dev/node-agent"
RENEWALS = 4
"""A Lease is renewed so many times while it lasts, as upstream's kubelets do."""
DEFAULT_DURATION_S = 40
MISSED = 1.5
"""Renewal intervals without a renewal, after which the holder has certainly missed one."""
LOOKS = 5
"""How often it is looked at in such an interval."""
RETRY_S = 1.0
AGAIN_S = 0.2
"""After a write that another one has overtaken: what is in flight cannot be read yet."""

log = structlog.get_logger("node-agent")


class Holder(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Which agent holds a name. `over`: it has given it back, with nothing mounted."""

    boot_id: str = msgspec.field(default="", name="bootID")
    machine_id: str = msgspec.field(default="", name="machineID")
    agent_id: str = msgspec.field(default="", name="agentID")
    over: bool = False

    def __str__(self) -> str:
        machine = f" of machine {self.machine_id}" if self.machine_id else ""
        return f"boot {self.boot_id}{machine}"


class HeldByAnother(Exception):
    """Another agent works under this node's name; this one must stop. The message says which and what to
    do."""

    def __init__(self, node: str, holder: Holder | None) -> None:
        self.node, self.holder = node, holder
        super().__init__(
            f"another node agent works as node {node} ({holder or 'one that does not say which'}): give this machine "
            "a name of its own (--name), and a root directory that is no copy; or stop the other one"
        )


def holder_of(lease: Lease) -> Holder | None:
    """Who holds the Lease; None if its holder does not say, as upstream's kubelets."""
    try:
        return msgspec.json.decode(lease.metadata.annotations.get(HOLDER, ""), type=Holder)
    except msgspec.DecodeError:
        return None


def may_take_at_once(holder: Holder | None, own: Holder, ended_boot: str) -> bool:
    """Whether the holder is this very agent, or certainly does not work any more."""
    if holder is None:
        return False
    same = (holder.boot_id, holder.agent_id) == (own.boot_id, own.agent_id)
    return same or holder.over or (bool(ended_boot) and holder.boot_id == ended_boot)


class NodeLease:
    """This agent's hold on its name."""

    def __init__(
        self, client: Client, options: AgentOptions, *, now: Now, heartbeat: Heartbeat | None = None
    ) -> None:
        self._client = client
        self._heartbeat = heartbeat or NothingToFeed()
        self._patience_s = options.lease_duration_s / RENEWALS if heartbeat is not None else None
        self._name = options.name
        self._duration_s = options.lease_duration_s
        self._ended_boot = options.ended_boot_id
        self.own = Holder(options.boot_id, options.machine_id, options.agent_id)
        self._now = now
        self._held: Lease | None = None
        self._renewed: set[str | None] = set()
        """The times of our renewals of which the last may not have been acknowledged."""
        self._statements = ""
        self._wake = asyncio.Event()
        self._acknowledged_at: float | None = None

    def tell(self, statements: str) -> None:
        """What this node states about its peers, from now on; "" for nothing. What is new is told by a
        renewal at once, and goes with the next one."""
        if statements != self._statements and statements:
            self._wake.set()
        self._statements = statements

    def is_heard(self) -> bool:
        """Whether a renewal was acknowledged while the Lease lasts."""
        now = asyncio.get_running_loop().time()
        return self._acknowledged_at is not None and now - self._acknowledged_at < self._duration_s

    async def acquire(self) -> None:
        """Returns when this agent holds the name. Raises HeldByAnother. Repeats what the API server does not
        answer."""
        while self._held is None:
            try:
                self._held = await self._take()
            except (Conflict, NotFound):  # AlreadyExists, too: the Lease has changed since it was read
                await asyncio.sleep(AGAIN_S)
            except KubeError as error:
                log.warning("node lease not acquired", node=self._name, error=str(error), retry_s=RETRY_S)
                await asyncio.sleep(RETRY_S)

    async def run(self, owner: Callable[[], str]) -> None:
        """Renews it, until cancelled. `owner` gives the uid of the Node. Raises HeldByAnother."""
        period = self._duration_s / RENEWALS
        while True:
            try:
                await self._pause(period if await self._renew(owner()) else min(AGAIN_S, period))
            except KubeError as error:
                log.warning("lease not renewed", node=self._name, error=str(error))
                await asyncio.sleep(min(RETRY_S, period))

    async def _pause(self, seconds: float) -> None:
        """Until the next renewal is due, or something is to be told."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        self._wake.clear()

    async def renew(self, owner: str) -> None:
        """Returns when one more renewal was acknowledged. Raises HeldByAnother, KubeError."""
        while not await self._renew(owner):  # noqa: ASYNC110 - nothing here tells when it may be tried
            await asyncio.sleep(AGAIN_S)

    async def confirm(self) -> None:
        """A live look, before anything is written over what another agent may have written. Raises
        HeldByAnother, KubeError."""
        await self._look()

    async def give_back(self) -> None:
        """The machine goes, and nothing is mounted any more: the next boot need not wait. Raises
        KubeError."""
        if self._held is not None:
            over = msgspec.structs.replace(self.own, over=True)
            await self._client.revise(self._held, {"metadata": {"annotations": _annotation(over)}})

    async def _take(self) -> Lease:
        lease = await self._client.find(Lease, self._name, NAMESPACE)
        if lease is None:
            return await self._create(self._body())
        if not may_take_at_once(holder_of(lease), self.own, self._ended_boot):
            lease = await self._silent(lease, late=1)
        return await self._client.revise(lease, self._body())

    async def _silent(self, lease: Lease, late: int = 0) -> Lease:
        """The Lease after its holder has certainly missed a renewal. Raises HeldByAnother.

        `late`: so many writes may still come in of agents that have ended. For an agent that starts that is
        one at the most: each names the version that it follows, so of those that were on their way when a
        machine lost its power one is carried out."""
        interval = (lease.spec.lease_duration_seconds or DEFAULT_DURATION_S) / RENEWALS
        log.info(
            "waiting for the node's former agent",
            node=self._name,
            holder=str(holder_of(lease)),
            interval_s=interval,
        )
        loop = asyncio.get_running_loop()
        until, first = loop.time() + MISSED * interval, lease
        while loop.time() < until:
            await asyncio.sleep(interval / LOOKS)
            lease = await self._client.get(Lease, self._name, NAMESPACE)
            if (lease.uid, lease.spec.renew_time) == (first.uid, first.spec.renew_time):
                continue
            holder = holder_of(lease)
            if not late:
                raise HeldByAnother(self._name, holder if holder != self.own else None)
            until, first, late = loop.time() + MISSED * interval, lease, late - 1
        return lease

    async def _renew(self, owner: str) -> bool:
        """Whether it was done, and there is nothing to tell by another one; else that may follow soon."""
        try:
            sent, body = self._heartbeat.sending(), self._body(owner)
            written = self._client.revise(self._held, body) if self._held else self._create(body)
            held = await self._in_time(written)
        except (Conflict, NotFound):  # AlreadyExists, too
            self._held = await self._look()
            return False
        self._held, self._renewed = held, {held.spec.renew_time}
        self._acknowledged_at = asyncio.get_running_loop().time()
        return not await self._heartbeat.acknowledged(sent)

    async def _look(self) -> Lease | None:
        """The Lease as it is, if no other agent that works has it."""
        lease = await self._in_time(self._client.find(Lease, self._name, NAMESPACE))
        if lease is None or (holder_of(lease) == self.own and lease.spec.renew_time in self._renewed):
            return lease
        return await self._silent(lease)

    async def _in_time(self, request: Awaitable[T]) -> T:
        """What it answers. Raises Unreachable, a KubeError, if it takes too long: it may have happened."""
        try:
            async with asyncio.timeout(self._patience_s):
                return await request
        except TimeoutError:
            raise Unreachable(f"no answer within {self._patience_s:g} s") from None

    async def _create(self, body: dict[str, Any]) -> Lease:
        metadata = body["metadata"]
        said = {key: value for key, value in metadata["annotations"].items() if value is not None}
        named = {**body, "metadata": {**metadata, "annotations": said, "name": self._name}}
        return await self._client.create(Lease, named, NAMESPACE)

    def _body(self, owner: str = "") -> dict[str, Any]:
        stamp = format_micro_time(self._now())
        self._renewed.add(stamp)
        announced = {
            ANNOUNCEMENT: self._heartbeat.announcement(stamp) or None,
            STATEMENTS: self._statements or None,
        }
        metadata: dict[str, Any] = {"annotations": {**_annotation(self.own), **announced}}
        if owner:
            metadata["ownerReferences"] = [
                {"apiVersion": "v1", "kind": "Node", "name": self._name, "uid": owner}
            ]
        return {
            "metadata": metadata,
            "spec": {
                "holderIdentity": self._name,
                "leaseDurationSeconds": max(1, math.ceil(self._duration_s)),
                "renewTime": stamp,
            },
        }


def _annotation(holder: Holder) -> dict[str, str]:
    return {HOLDER: msgspec.json.encode(holder).decode()}
