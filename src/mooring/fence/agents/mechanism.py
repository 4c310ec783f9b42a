"""A fence agent as a mechanism: looks, orders `off`, and looks again.

Its word counts as FENCED only if the order ended well and a look after it says off. Each agent's own
verification is not enough: one that times out after the machine went off, and one that never sent anything,
end alike. An order that failed may have had its effect, so it is UNKNOWN, never NOT_FENCED, unless it was not
given at all. `reboot` is never used: what was on again is no evidence of anything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace

from mooring.fence import parameters, programs
from mooring.fence.agents import decide, hiding
from mooring.fence.agents.identities import NoIdentity
from mooring.fence.agents.installed import NoAgent, installed
from mooring.fence.agents.metadata import Metadata
from mooring.fence.identity import is_uuid, mismatch
from mooring.fence.interface import Answer, Look, Order, Outcome, Parameter, Scope, State
from mooring.fence.moments import moment
from mooring.fence.programs import Deadline, Ended, ProgramMissing, Run

ATTEMPTS = 2
PAUSE_S = 1.0
IDENTITY_SHARE, LOOK_SHARE, ORDER_SHARE = 0.2, 0.2, 0.8
"""Of what is left of the deadline each time: so a device that does not answer costs no order its time."""
NONE = "it tells no identity: whose outlet or port it is, only the parameters say"

Identity = Callable[[Mapping[str, str], float, Run], Awaitable[dict[str, str]]]
Hiding = Callable[[Mapping[str, str]], AbstractContextManager[hiding.Hands]]


@dataclass(frozen=True)
class Kind:
    """One agent, or any (`agent` ""), as a mechanism. `parameters`: all that it has, if it is one agent;
    `always`: what the agent is always given, unless a parameter says otherwise; `ours`: names of parameters
    that are not the agent's."""

    kind: str
    summary: str
    scope: Scope
    agent: str = ""
    parameters: Mapping[str, Parameter] = field(default_factory=dict[str, Parameter])
    always: Mapping[str, str] = field(default_factory=dict[str, str])
    ours: frozenset[str] = frozenset()
    hiding: Hiding = hiding.by_input
    identity: Identity | None = None
    programs: Mapping[str, str] = field(default_factory=dict[str, str])


class FenceAgent:
    """See `Mechanism`."""

    def __init__(self, of: Kind, run: Run = programs.run) -> None:
        self._of = of
        self._run = run

    @property
    def kind(self) -> str:
        return self._of.kind

    @property
    def scope(self) -> Scope:
        return self._of.scope

    @property
    def summary(self) -> str:
        return self._of.summary

    @property
    def parameters(self) -> Mapping[str, Parameter]:
        return self._of.parameters

    def problems(self, order: Order) -> list[str]:
        """See `Mechanism`. The first time for an agent it runs `AGENT -o metadata`, up to 10 s; blocks."""
        wrong = programs.missing(self._of.programs)
        try:
            metadata = installed(self._agent(order))
        except NoAgent as error:
            if self._of.agent or "agent" in parameters.given(order):
                return [*wrong, str(error)]
            return [*wrong, *parameters.problems(self._of.parameters, order)]
        return [*wrong, *self._unfit(metadata), *self._wrong(metadata, order)]

    def _agent(self, order: Order) -> str:
        return self._of.agent or parameters.given(order).get("agent", "")

    def _unfit(self, metadata: Metadata) -> list[str]:
        name = metadata.agent
        if why := decide.NO_POWER.get(name):
            return [f"{name} is no mechanism: {why}"]
        found = [f"{name} has no {action}" for action in ("off", "status") if action not in metadata.actions]
        if not self._of.agent and (self.scope is Scope.POWER) != ("reboot" in metadata.actions):
            cuts = "power" if "reboot" in metadata.actions else "a port or a path, and leaves the machine on"
            found.append(f"{name} cuts {cuts}: it is not for type {self.kind}")
        return found

    def _wrong(self, metadata: Metadata, order: Order) -> list[str]:
        given = {name: value for name, value in parameters.given(order).items() if name != "agent"}
        refused = decide.refused(metadata, given)
        known = {**(decide.as_parameters(metadata) if not self._of.agent else {}), **self._of.parameters}
        rest = replace(
            order,
            parameters={name: value for name, value in order.parameters.items() if name not in refused},
            secrets={name: value for name, value in order.secrets.items() if name not in refused},
        )
        ours = {name: value for name, value in given.items() if name not in self._of.ours}
        found = [*refused.values(), *parameters.problems(known, rest), *decide.value_problems(metadata, ours)]
        own = decide.own_seconds(metadata, given)
        needed = own / (ORDER_SHARE * (1 - LOOK_SHARE) * (1 - IDENTITY_SHARE))
        if order.deadline < needed:
            found.append(
                f"a deadline of {order.deadline:g} s is too short: {metadata.agent} itself may take {own:g} s for an "
                f"order; give it {needed:.0f} s, or a smaller power_timeout"
            )
        return list(dict.fromkeys(found))

    # --- what is done

    async def look(self, order: Order) -> Look:
        """See `Mechanism`."""
        wrong = await asyncio.to_thread(self.problems, order)
        if wrong:
            return Look(State.UNKNOWN, "BadParameter", "; ".join(wrong))
        return await _Session(self._of, self._agent(order), order, self._run).look()

    async def fence(self, order: Order) -> Answer:
        """See `Mechanism`."""
        wrong = await asyncio.to_thread(self.problems, order)
        if wrong:
            return Answer(Outcome.NOT_FENCED, "BadParameter", "; ".join(wrong))
        return await _Session(self._of, self._agent(order), order, self._run).switch("off", State.SHUT)

    async def unfence(self, order: Order) -> Answer:
        """See `Mechanism`."""
        wrong = await asyncio.to_thread(self.problems, order)
        if wrong:
            return Answer(Outcome.NOT_FENCED, "BadParameter", "; ".join(wrong))
        return await _Session(self._of, self._agent(order), order, self._run).switch("on", State.OPEN)


class _Session:
    """One call for one order."""

    def __init__(self, of: Kind, agent: str, order: Order, run: Run) -> None:
        self._of = of
        self._agent = agent
        self._target = order.target
        self._given = {**of.always, **parameters.given(order)}
        self._given.pop("agent", None)
        self._secrets = list(order.secrets.values())
        self._deadline = Deadline(order.deadline)
        self._run = run

    async def look(self) -> Look:
        try:
            identity = await self._identity()
            found = decide.look_of(self._agent, await self._do("status", self._deadline.left()))
        except ProgramMissing as error:
            return Look(State.UNKNOWN, "NotInstalled", str(error))
        except NoIdentity as error:
            return Look(State.UNKNOWN, "Silent", self._clean(str(error)))
        if self._of.identity is None:
            return replace(found, message=f"{self._clean(found.message)}; {NONE}")
        return replace(found, message=self._clean(found.message), identity=identity)

    async def switch(self, action: str, wanted: State) -> Answer:
        """Compares the identity, looks, orders, looks again; a second time if the two do not agree."""
        try:
            identity = await self._identity()
            told = identity.get("guid") or identity.get("systemUUID", "")
            if wrong := mismatch(self._target, told):
                return Answer(Outcome.NOT_FENCED, "WrongTarget", f"nothing was done: {wrong}")
            if self._of.identity is not None and is_uuid(self._target.bmc_guid) and not told:
                message = f"nothing was done: it told {self._target.bmc_guid} before, and tells none now"
                return Answer(Outcome.NOT_FENCED, "WrongTarget", message)
            before = decide.look_of(self._agent, await self._do("status", self._deadline.left(LOOK_SHARE)))
            return await self._switch(action, wanted, before.state, identity)
        except ProgramMissing as error:  # it was there a moment ago, and may have been told
            return Answer(Outcome.UNKNOWN, "NotInstalled", str(error))
        except NoIdentity as error:
            message = f"nothing was ordered, as it does not say whose it is: {error}"
            return Answer(Outcome.UNKNOWN, "Silent", self._clean(message))

    async def _switch(self, action: str, wanted: State, before: State, identity: Mapping[str, str]) -> Answer:
        done = Outcome.FENCED if wanted is State.SHUT else Outcome.UNFENCED
        ordered, after = Ended(None), Look(State.UNKNOWN, "NotAsked", "it was not asked")
        for attempt in range(ATTEMPTS):
            if attempt and not await self._deadline.pause(PAUSE_S):
                break
            at = moment()
            ordered = await self._do(action, self._deadline.left(ORDER_SHARE))
            answered = moment()
            status = await self._do("status", self._deadline.left())
            after = decide.look_of(self._agent, status)
            if ordered.status == 0 and after.state is wanted:
                evidence = {
                    "source": self._of.kind,
                    "agent": self._agent,
                    "state": "off" if wanted is State.SHUT else "on",
                    "orderedAt": at,
                    "answeredAt": answered,
                    "readAt": moment(),
                    "exitStatus": f"{action} {ordered.status}, status {status.status}",
                    **identity,
                }
                return Answer(done, after.code, self._clean(after.message), evidence, before)
        disagree = "Contradiction" if ordered.status == 0 else "OrderFailed"
        code = after.code if after.state is State.UNKNOWN else disagree
        message = f"{decide.order_words(self._agent, action, ordered)}; then {after.message}"
        return Answer(Outcome.UNKNOWN, code, self._clean(message), before=before)

    async def _identity(self) -> dict[str, str]:
        """What the device tells of itself; empty if it answers that it has none. Raises NoIdentity if it does
        not answer."""
        if self._of.identity is None:
            return {}
        try:
            found = await self._of.identity(self._given, self._deadline.left(IDENTITY_SHARE), self._run)
        except NoIdentity as error:
            if error.answered:
                return {}
            raise
        if "system" in found:
            self._given["systems_uri"] = found.pop("system")  # the one whose identity was told
        return found

    async def _do(self, action: str, seconds: float) -> Ended:
        with self._of.hiding({**self._given, "action": action}) as hands:
            ended = await self._run(
                [self._agent], given=decide.lines(hands.lines), deadline=seconds, environ=hands.environ
            )
        return replace(ended, output=self._clean(ended.output), errors=self._clean(ended.errors))

    def _clean(self, text: str) -> str:
        return parameters.without_secrets(text, self._secrets)
