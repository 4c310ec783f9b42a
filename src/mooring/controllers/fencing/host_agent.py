"""The mechanism `host-agent`: waits until a node that is silent has certainly been reset by the hardware
watchdog that it had announced.

Its order is waiting: nothing is sent to the node, so nothing can be lost or refused on the way. Its evidence
is never time alone, but time after the last renewal of a Lease that says that a watchdog was armed in this
very boot. Why that suffices is written in `volumes.self_fence`. It is counted on this process's monotonic
clock from when the renewal was seen here, anew after a restart; the Lease is read live after the count, and
must still show that renewal.

It is here and not among `mooring.fence`, because it reads the API, and remembers what a watch has shown:
mechanisms there know no Kubernetes and keep nothing between calls.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple

from mooring.controllers.fencing.silence import DEFAULT_DURATION_S, LATE_S, LEASES, SUSPECT, Observed
from mooring.fence.interface import Answer, Look, Order, Outcome, Parameter, Scope, State, Target
from mooring.kube.client import Client
from mooring.kube.objects import Lease
from mooring.kube.printable import printable
from mooring.kube.reason import Reason
from mooring.volumes.self_fence import (
    MOST_WORDS,
    Announcement,
    announcement_of,
    is_software,
    longest,
    silence_needed,
)

KIND = "host-agent"
LOOK_S = 5.0
"""So often is the Lease read while it is waited for."""
SOON_S = 3.0
"""So long after its Node reports an agent may take to announce what it has armed."""


class Silent(Enum):
    """What the Lease of a node says of its end."""

    REFUSED = "Refused"  # it proves nothing, however long it is waited for
    RENEWS = "Renews"
    WAITS = "Waits"
    OVER = "Over"


class Judged(NamedTuple):
    """`left`: seconds that are missing; `announced`: by whom it is shown, unless refused."""

    silent: Silent
    reason: Reason
    left: float = 0.0
    announced: Announcement | None = None


def judge(target: Target, observed: Observed, live: Lease | None, deadline: float) -> Judged:
    """What the Lease shows. `observed` was taken before `live` was read; `deadline`: so long the mechanism
    may take."""
    told = announcement_of(live) if live is not None else None
    if live is None or told is None:
        return _refused(
            "NoSelfFence", f"{target.node} announces no watchdog: its agent runs without --self-fence"
        )
    if refusal := _refusal(target, told, live.spec.renew_time or ""):
        return Judged(Silent.REFUSED, refusal)
    needed = silence_needed(told)
    if needed > deadline:
        return _refused(
            "TimeoutTooShort",
            f"{target.node} has reset itself for certain after a silence of {needed:.0f} s, and timeoutSeconds of the "
            f"FenceMechanism is {deadline:g}: set it to more, or the node's --self-fence-after to less",
        )
    duration = live.spec.lease_duration_seconds or DEFAULT_DURATION_S
    device = f"{printable(told.device)[:MOST_WORDS]} ({told.timeout_seconds:g} s)"
    silent = observed.seconds if observed.renewed == live.spec.renew_time else 0.0
    if silent < duration * SUSPECT:
        message = f"{target.node} renews its Lease, and is reset by {device} at the latest {longest(told):g} s after"
        return Judged(Silent.RENEWS, Reason("Armed", message), needed - silent, told)
    if silent < needed:
        message = (
            f"{target.node} is silent for {silent:.0f} s; after {needed:.0f} s its watchdog, {device}, has "
            "certainly reset it"
        )
        return Judged(Silent.WAITS, Reason("WaitsForReset", message), needed - silent, told)
    message = f"{target.node} has not renewed its Lease for {silent:.0f} s: {device} has reset it"
    return Judged(Silent.OVER, Reason("SelfReset", message), 0.0, told)


def _refusal(target: Target, told: Announcement, renewed: str) -> Reason | None:
    """Why the announcement says nothing of this boot."""
    node = target.node
    if not target.boot_id or told.boot_id != target.boot_id:
        message = f"what {node} announces is of boot {printable(told.boot_id)[:64] or '(none)'}, not {target.boot_id}"
        return Reason("AnotherBoot", message)
    if told.renewed != renewed:
        message = f"the last renewal of {node} is by an agent that announces no watchdog"
        return Reason("NoSelfFence", message)
    if told.problem:
        message = f"{node} has no watchdog that counts: {printable(told.problem)[:MOST_WORDS]}"
        return Reason("SelfFenceRefused", message)
    if is_software(told.device):
        message = (
            f"{node} has a software watchdog, which stands still when the machine does: it does not count"
        )
        return Reason("SelfFenceRefused", message)
    return None


def _refused(code: str, message: str) -> Judged:
    return Judged(Silent.REFUSED, Reason(code, message))


class HostAgent:
    """The mechanism. `observed` gives what this process has seen of a node's Lease; without one, as in a
    command that has watched nothing, no silence is ever long enough."""

    kind = KIND
    scope = Scope.POWER
    summary = "waits until a node's own hardware watchdog has reset it, which its agent had announced (--self-fence)"
    parameters: Mapping[str, Parameter] = MappingProxyType({})

    def __init__(
        self, client: Client, observed: Callable[[str], Observed] = lambda node: Observed("", 0.0)
    ) -> None:
        self._client, self._observed = client, observed

    def problems(self, order: Order) -> list[str]:
        """It has no parameters."""
        return [
            f"{name} is no parameter of it: it has none"
            for name in sorted({*order.parameters, *order.secrets})
        ]

    async def look(self, order: Order) -> Look:
        """Says Open while it renews, Shut when it has certainly been reset, and between that it knows not."""
        judged = await self._judged(order)
        if judged.reason.code in ("NoSelfFence", "AnotherBoot"):  # an agent announces after its Node is there
            await asyncio.sleep(SOON_S)
            judged = await self._judged(order)
        state = {Silent.RENEWS: State.OPEN, Silent.OVER: State.SHUT}.get(judged.silent, State.UNKNOWN)
        return Look(state, judged.reason.code, judged.reason.message)

    async def fence(self, order: Order) -> Answer:
        """Waits. A node that renews meanwhile was not fenced, and nothing was done to it; nor is one fenced
        for which the order has not the time. What was found before is never "off already": the announcement
        itself was a sign of life in this boot."""
        ends, first = asyncio.get_running_loop().time() + order.deadline, ""
        while True:
            judged = await self._judged(order)
            if judged.announced is None or judged.silent is Silent.OVER:
                break
            first = first or judged.announced.renewed
            left = ends - asyncio.get_running_loop().time()
            if judged.announced.renewed != first or judged.left > left + LATE_S:
                break
            await asyncio.sleep(min(judged.left, LOOK_S))
        return _answer(judged, self._observed(order.target.node))

    async def unfence(self, order: Order) -> Answer:
        """There is nothing to take back: a machine that is reset boots by itself."""
        return Answer(
            Outcome.UNFENCED, "BootsByItself", f"{order.target.node} boots by itself after its reset"
        )

    async def _judged(self, order: Order) -> Judged:
        node = order.target.node
        observed = self._observed(node)  # before the Lease is read: what is read is not older
        return judge(order.target, observed, await self._client.find(Lease, node, LEASES), order.deadline)


def _answer(judged: Judged, observed: Observed) -> Answer:
    if judged.silent is not Silent.OVER or judged.announced is None:
        code = judged.reason.code if judged.announced is None else "StillRenews"
        return Answer(Outcome.NOT_FENCED, code, judged.reason.message, before=State.OPEN)
    told = judged.announced
    evidence = {
        "lastRenewal": told.renewed,
        "bootID": told.boot_id,
        "watchdog": printable(told.device)[:MOST_WORDS],
        "watchdogSeconds": f"{told.timeout_seconds:g}",
        "silentSeconds": f"{observed.seconds:.1f}",
        "neededSeconds": f"{silence_needed(told):.1f}",
    }
    return Answer(Outcome.FENCED, judged.reason.code, judged.reason.message, evidence, State.OPEN)
