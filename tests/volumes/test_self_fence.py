"""The rule of self-fencing over clocks that drift: evidence is never given before the machine is reset.

A world of one node, its watchdog and a controller, in true time, of which none of them knows. What is decided
is decided by the code that runs: `SelfFence` feeds, `judge` gives evidence. Pauses, lost answers, kills,
restarts and clocks are drawn by chance.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.controllers.fencing.host_agent import Silent, judge
from mooring.controllers.fencing.silence import LEASES, Observed
from mooring.fence.interface import Target
from mooring.kube.objects import Lease
from mooring.kube.objects.coordination import LeaseSpec
from mooring.kube.objects.meta import ObjectMeta
from mooring.node.self_fence.keeper import SelfFence
from mooring.node.self_fence.watchdog import Armed
from mooring.volumes.self_fence import (
    ANNOUNCEMENT,
    DRIFT,
    Announcement,
    announcement_of,
    silence_needed,
)

LIMIT_S, PERIOD_S = 20.0, 5.0
TARGET = Target("a", "uid", "boot")


@dataclass
class Rules:
    """What a mutant changes."""

    needed: Callable[[Announcement], float] = silence_needed
    counts_anew: bool = True
    feeds_by_being_alive: bool = False


class Hardware:
    """In true time: it bites so many of its own seconds, which pass at `rate`, after it was last fed."""

    def __init__(self, world: World, rate: float, fed_by_close: bool) -> None:
        self._world, self._rate, self.fed_by_close = world, rate, fed_by_close
        self.bites_at = float("inf")
        self._seconds = 0.0

    def fed_at(self, true: float) -> float:
        """When it bites, if it is fed then and not again."""
        return true + self._seconds / self._rate

    async def arm(self, seconds: float) -> Armed:
        self._seconds = float(round(seconds))
        await self.feed()
        return Armed("a watchdog", self._seconds, self.fed_by_close)

    async def feed(self) -> None:
        self._world.true += self._world.stopped_before_feeding()
        self._world.feed()

    async def disarm(self) -> None:
        self.bites_at = float("inf")


class World:
    """One run. `rules`: the right ones, or a mutant's."""

    def __init__(self, chance: Random, rules: Rules) -> None:
        self.chance, self.rules = chance, rules
        self.true = 0.0
        drift = DRIFT / 3.01
        self._node, self._controller, hardware = (1 + chance.uniform(-drift, drift) for _ in range(3))
        self._offset = chance.uniform(0, 1e6)
        self.hardware = Hardware(self, hardware, chance.random() < 0.5)
        self.over_at = float("inf")
        self.commits: list[tuple[float, str, str]] = []  # true time, stamp, what was announced
        self._agent = self._start()

    def _start(self) -> SelfFence:
        return SelfFence(self.hardware, "boot", LIMIT_S, clock=lambda: self._offset + self.true * self._node)

    def stopped_before_feeding(self) -> float:
        return self.chance.choice((0.0, 0.0, 0.0, self.chance.uniform(0, 1.2 * LIMIT_S)))

    def feed(self) -> None:
        """The hardware is fed now, unless it has bitten before."""
        if self.true >= self.hardware.bites_at:
            self.over_at = min(self.over_at, self.hardware.bites_at)
            return
        self.hardware.bites_at = self.hardware.fed_at(self.true)

    @property
    def is_over(self) -> bool:
        if self.true >= self.hardware.bites_at:
            self.over_at = min(self.over_at, self.hardware.bites_at)
        return self.true >= self.over_at

    def live_for(self, steps: int) -> None:
        for _ in range(steps):
            if self.is_over:
                return
            self._step()

    def _step(self) -> None:
        chance = self.chance
        stamp = f"{len(self.commits)}-{chance.random()}"
        sent, said = self._agent.sending(), self._agent.announcement(stamp)
        self.true += chance.choice((0.01, 0.5, chance.uniform(0, 2 * LIMIT_S)))
        arrives = chance.random() < 0.8
        if arrives:
            self.commits.append((self.true, stamp, said))
        if self.is_over:
            self.commits = [each for each in self.commits if each[0] < self.over_at]
            return
        self.true += chance.choice((0.01, 0.5, chance.uniform(0, 2 * LIMIT_S)))
        if self.is_over:
            return
        if arrives and chance.random() < 0.8:
            run(self._agent.acknowledged(sent))
        elif self.rules.feeds_by_being_alive and self._agent.armed is not None:
            self.feed()
        self._dies()
        self.true += PERIOD_S * chance.uniform(0.5, 1)

    def _dies(self) -> None:
        """Perhaps the agent is killed, at once or after it has hung, and another one is started."""
        if self.chance.random() > 0.15:
            return
        self.true += self.chance.choice((0.0, self.chance.uniform(0, 1.3 * LIMIT_S)))
        if self._agent.armed is not None and self._agent.armed.fed_by_close:
            self.feed()
        self._agent = self._start()

    # --- the controller

    def evidence_at(self) -> float | None:
        """The earliest true time at which the controller gives evidence after the node's last commit, if it
        does. It has observed each renewal after a while, or not at all, and it may have started anew."""
        if not self.commits:
            return None
        committed, stamp, said = self.commits[-1]
        observed = committed + self.chance.choice((0.0, 1.0, self.chance.uniform(0, 30)))
        if self.chance.random() < 0.3 and self.rules.counts_anew:
            observed += self.chance.uniform(0, 60)
        if self.chance.random() < 0.3 and not self.rules.counts_anew:
            observed = self.commits[0][0]  # it goes on counting from what its predecessor had seen first
        metadata = ObjectMeta(name="a", namespace=LEASES, annotations={ANNOUNCEMENT: said} if said else {})
        live = Lease(metadata=metadata, spec=LeaseSpec(renew_time=stamp))
        told = announcement_of(live)
        if told is None:
            return None
        waits = self.rules.needed(told)
        if self.rules.needed is silence_needed:
            assert judge(TARGET, Observed(stamp, waits - 0.001), live, 1e9).silent is not Silent.OVER
            assert judge(TARGET, Observed(stamp, waits), live, 1e9).silent is Silent.OVER
        return observed + waits / self._controller


def run(coroutine: Any) -> None:
    """A coroutine that waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration:
        return
    raise AssertionError("it waits")


def is_sound(seed: int, rules: Rules) -> bool:
    """Whether, in the run of this seed, evidence came only after the machine's end."""
    world = World(Random(seed), rules)
    world.live_for(world.chance.randint(1, 12))
    at = world.evidence_at()
    if at is None:
        return True
    if world.over_at == float("inf"):
        world.over_at = world.hardware.bites_at  # from now on nothing feeds; but the agent may be killed yet
        if world.hardware.fed_by_close and world.chance.random() < 0.3:
            killed = world.true + world.chance.uniform(0, max(world.over_at - world.true, 0))
            world.over_at = world.hardware.fed_at(killed)
    return world.over_at <= at


@given(st.integers(0, 1 << 48))
@settings(max_examples=1500, deadline=None)
def test_evidence_is_never_given_before_the_machine_is_reset(seed: int):
    assert is_sound(seed, Rules())


@pytest.mark.parametrize("rules", [
    Rules(feeds_by_being_alive=True),
    Rules(counts_anew=False),
    Rules(needed=lambda told: told.timeout_seconds),
    Rules(needed=lambda told: told.limit_seconds + told.timeout_seconds),
    Rules(needed=lambda told: 2 * told.timeout_seconds),
], ids=["fed by being alive", "not counted anew", "W", "limit and W", "closing forgotten"])  # fmt: skip
def test_a_rule_that_is_wrong_is_found(rules: Rules):
    assert not all(is_sound(seed, rules) for seed in range(20_000))
