"""What a simulated cloud is like, and what it does when it is not well: faults of EC2, as steps of a plan.

Each changes the cloud's settings for a while, and takes back just what it has changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from random import Random
from typing import Any

from mooring.cloud.settings import Settings, from_json
from mooring.simulation.cluster.scenario import PlanStep, Scenario
from mooring.simulation.cluster.workloads import KEPT, TUNED
from mooring.simulation.parts.ec2 import CHANGES, LATEST_S, Ec2

REGION = "us-east-1"
LAGS_S = (0.0, 1.0, LATEST_S)
"""By how much what EC2 describes may lag: less than the driver's `settling.SETTLE_S`, as all that EC2
does."""
MODIFICATIONS = 1_000
"""So many of a volume, in a day, where users change what it is like: with four, a run would soon be over."""
SNAPSHOTS_S = ((0.0, 0.5), (2.0, 6.0), (5.0, 30.0))
"""So long a snapshot is pending."""
PUT_OFF = 0.67
"""The share of requests that are put off."""
STUCK_S = 60.0
"""What is stuck is so for this time, or that of its fault; never for ever: only the guest could mend that."""
HIDDEN = ("/dev/xvdaa", "/dev/sdf")
"""Device names that an image has taken, though no describe shows them."""


def cloud_settings(scenario: Scenario, chance: Random) -> Settings:
    """The cloud of a seed: as the scenario says; what it leaves open is drawn."""
    zones = [f"{REGION}{letter}" for letter in "abcdef"[: scenario.zones]]
    drawn = {
        "volumes_lag_s": chance.choice(LAGS_S),
        "instances_lag_s": chance.choice(LAGS_S),
        "hidden_devices": chance.choice(((), HIDDEN)),
        "creating_s": chance.choice(((1.5, 4.0), (0.0, 0.5))),
        "attaching_s": chance.choice(((1.0, 4.0), (0.0, 0.5), (2.0, 12.0))),
        "detaching_s": chance.choice(((1.0, 4.0), (0.0, 0.5), (2.0, 12.0))),
        "stuck_s": STUCK_S,
    }
    if not TUNED.isdisjoint(scenario.workloads.values()):
        drawn["modifications_per_day"] = MODIFICATIONS
    if not KEPT.isdisjoint(scenario.workloads.values()):
        drawn |= {"snapshots_lag_s": chance.choice(LAGS_S), "snapshot_s": chance.choice(SNAPSHOTS_S)}
    return from_json({"zones": zones, **drawn, **scenario.cloud})


class CloudFaults:
    """Plays faults on one cloud."""

    def __init__(self, ec2: Ec2) -> None:
        self._ec2 = ec2
        self._lasting: dict[str, int] = {}

    def heal(self) -> None:
        """The cloud is as it was at first."""
        self._ec2.puts_off = 0.0
        self._lasting.clear()
        settings = self._ec2.settings.as_json()
        names = (
            "attaching_s",
            "detaching_s",
            "creating_s",
            "stuck_attach_share",
            "stuck_detach_share",
            "stuck_s",
        )
        self._ec2.cloud.configure(
            {name: settings[name] for name in (*names, "faults", "bucket_scale", *_LAGS)}
        )

    async def slow(self, step: PlanStep) -> None:
        """Volumes take long to be made, attached and detached."""
        span = [step.value / 2, step.value]
        await self._for(60 + step.value, dict.fromkeys(("creating_s", "attaching_s", "detaching_s"), span))

    async def stuck(self, step: PlanStep) -> None:
        """Half of what is attached (`how` even) or detached (odd) is stuck, for as long as the fault
        lasts."""
        share = "stuck_detach_share" if step.how % 2 else "stuck_attach_share"
        await self._for(step.value, {share: 0.5, "stuck_s": step.value})

    async def fails(self, step: PlanStep) -> None:
        """Two of three requests are not carried out."""
        codes = ("InternalError", "Unavailable", "RequestLimitExceeded")
        code = codes[step.how % 3]
        await self._for(step.value, {"faults": [{"action": "*", "code": code, "share": 0.67}]})

    async def unanswered(self, step: PlanStep) -> None:
        """Two of three requests that change something are carried out, and only the answer fails."""
        changes = [each for each in CHANGES if each != "ModifyVolume"]
        await self._for(
            step.value, {"faults": [{"action": each, "share": 0.67, "after": True} for each in changes]}
        )

    async def puts_off(self, step: PlanStep) -> None:
        """Two of three requests that change something are answered with an error at once, and carried out up
        to LATEST_S later."""
        self._ec2.puts_off = PUT_OFF
        await asyncio.sleep(step.value)
        self._ec2.puts_off = 0.0

    async def throttles(self, step: PlanStep) -> None:
        """The quotas are a hundredth of what they are."""
        await self._for(step.value, {"bucket_scale": 0.01})

    async def lags(self, step: PlanStep) -> None:
        """What is described is old."""
        await self._for(step.value, dict.fromkeys(_LAGS, LATEST_S))

    async def _for(self, seconds: float, changes: Mapping[str, Any]) -> None:
        """Until as many seconds have passed, or another fault of the kind has come meanwhile."""
        numbers = {name: self._lasting.get(name, 0) + 1 for name in changes}
        self._lasting |= numbers
        self._ec2.cloud.configure(changes)
        await asyncio.sleep(seconds)
        over = [name for name, number in numbers.items() if self._lasting.get(name) == number]
        settings = self._ec2.settings.as_json()
        self._ec2.cloud.configure({name: settings[name] for name in over})


_LAGS = ("volumes_lag_s", "instances_lag_s", "snapshots_lag_s")
