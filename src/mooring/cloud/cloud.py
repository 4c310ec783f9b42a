"""EC2 without HTTP: `Cloud.call` takes boto3's requests and returns boto3's answers.

Guarantees: every refusal is an `Ec2Error`; the state in an answer is durable before the answer is given; the
same seed and the same calls at the same times give the same ids and the same delays. It knows nothing of
HTTP, and of devices and disks only `interface`.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import structlog

from mooring.cloud.actions import (
    attachments,
    backing,
    instance_answers,
    instances,
    modifications,
    regions_and_types,
    snapshots,
    tags,
    volume_status,
    volumes,
)
from mooring.cloud.actions.instance_types import instance_types
from mooring.cloud.actions.instance_views import InstanceView, view
from mooring.cloud.actions.transitions import perform
from mooring.cloud.errors import Ec2Error
from mooring.cloud.interface import Devices, Journal, NoDevices, NoJournal, NoMachines, Power
from mooring.cloud.records.deadlines import Key
from mooring.cloud.region import Action, Region
from mooring.cloud.requests.quotas import Buckets, Quota, bucket_of, quota_of
from mooring.cloud.settings import Fault, Settings

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

_ACTIONS: dict[str, Action] = {
    **volumes.ACTIONS,
    **volume_status.ACTIONS,
    **attachments.ACTIONS,
    **snapshots.ACTIONS,
    **modifications.ACTIONS,
    **tags.ACTIONS,
    **instances.ACTIONS,
    **instance_answers.ACTIONS,
    **regions_and_types.ACTIONS,
}

ACTIONS = tuple(sorted(_ACTIONS))
"""The names of all actions."""


class Cloud:
    """One account in one region.

    `clock` gives seconds since the epoch, and may be virtual. `rng` is the only source of randomness. The
    cloud loads the records of `journal` and goes on where it was.
    """

    def __init__(
        self,
        *,
        settings: Settings,
        clock: Callable[[], float],
        rng: random.Random,
        devices: Devices | None = None,
        journal: Journal | None = None,
        power: Power | None = None,
    ) -> None:
        self.region = Region(
            settings, clock, rng, devices or NoDevices(), journal or NoJournal(), power or NoMachines()
        )
        self._buckets = Buckets()
        self._hits: Counter[int] = Counter()
        self._calls: Counter[str] = Counter()
        self._errors: Counter[str] = Counter()
        self._throttles: Counter[str] = Counter()

    # --- requests

    async def call(self, action: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Carries out one request, in boto3's names and shapes; times are aware datetimes. Raises
        Ec2Error."""
        name = action if action in _ACTIONS else "(unknown)"
        self._calls[name] += 1
        try:
            return await self._call(action, request)
        except Ec2Error as error:
            self._errors[name] += 1
            self._throttles[name] += error.code == "RequestLimitExceeded"
            raise

    async def _call(self, action: str, request: Mapping[str, Any]) -> dict[str, Any]:
        if action not in _ACTIONS:
            raise Ec2Error("InvalidAction", f"The action {action} is not valid for this web service.")
        self._throttle(action, request)
        before, after = self._faults(action)
        if before:
            raise Ec2Error(before.code, before.message, before.status)
        try:
            answer = await _ACTIONS[action](self.region, request)
        finally:
            self.region.store.commit()
        await self._hold_back(action)
        if after:
            raise Ec2Error(after.code, after.message, after.status)
        return answer

    def _throttle(self, action: str, request: Mapping[str, Any]) -> None:
        settings = self.settings
        bucket = bucket_of(action, request, ids_are_filters=settings.ids_are_filters)
        quota = quota_of(bucket)
        for name in (action, bucket):
            quota = Quota(*settings.buckets.get(name, quota))
        scale = settings.bucket_scale
        scaled = Quota(max(1.0, quota.size * scale), quota.refill * scale)
        if settings.throttling and not self._buckets.take(bucket, scaled, self.region.clock()):
            raise Ec2Error("RequestLimitExceeded", "Request limit exceeded.", 503)

    def _faults(self, action: str) -> tuple[Fault | None, Fault | None]:
        """The fault that prevents this call, and the fault that loses its answer."""
        chosen: dict[bool, Fault] = {}
        for index, fault in enumerate(self.settings.faults):
            over = fault.times and self._hits[index] >= fault.times
            if fault.action in ("*", action) and not over and self.region.chance(fault.share):
                self._hits[index] += 1
                chosen.setdefault(fault.after, fault)
        return chosen.get(False), chosen.get(True)

    async def _hold_back(self, action: str) -> None:
        latency = self.settings.latency_s
        if of := latency.get(action, latency.get("*")):
            await asyncio.sleep(self.region.rng.uniform(*of))

    # --- time

    async def run(self) -> None:
        """Performs each transition at its due time, for ever. To be run by one task only."""
        due = self.region.store.due
        async with asyncio.TaskGroup() as tasks:
            while True:
                due.sooner.clear()
                for at, key in due.take(self.region.clock()):
                    tasks.create_task(self._perform(at, key))
                await self._wait(self.region.store.next_due())

    async def _perform(self, at: float, key: Key) -> None:
        try:
            await perform(self.region, at, key)
        except Exception as error:  # the records are not saved yet, so every call fails until they are
            log.error("transition failed", kind=key.kind, id=key.id, error=str(error), exc_info=error)

    async def settle(self) -> float | None:
        """Performs all transitions that are due now. Returns the time of the next one; None if there is
        none."""
        due = self.region.store.due
        while taken := due.take(self.region.clock()):
            await asyncio.gather(*(perform(self.region, at, key) for at, key in taken))
        return self.region.store.next_due()

    async def _wait(self, until: float | None) -> None:
        sooner = self.region.store.due.sooner
        if until is None:
            await sooner.wait()
            return
        try:
            async with asyncio.timeout(max(0.001, until - self.region.clock())):
                await sooner.wait()
        except TimeoutError:
            return

    # --- from outside EC2

    async def restore(self) -> None:
        """Makes every attached volume a device of its instance again, after a restart of this machine."""
        for volume in list(self.region.store.volumes.records.values()):
            for each in volume.attachments:
                if each.state in ("attached", "busy"):
                    await backing.attach_again(self.region, volume.id, each.instance, each.device)
        self.region.store.commit()

    def instances(self) -> list[InstanceView]:
        """All instances, also those that are terminated and still described."""
        return [view(self.region, each) for each in self.region.store.instances.records.values()]

    def launch(self, count: int, instance_type: str = "", zone: str = "") -> list[str]:
        """Launches instances until there are at least `count`, and returns the ids of all; new ones are
        running at once.

        `zone` may name several zones, separated by commas, for new instances in turn. "": the first zone of
        the settings. Raises ValueError (no such type), Ec2Error (InvalidZone.NotFound).
        """
        type = instance_type or self.settings.instance_type
        if type not in instance_types():
            raise ValueError(f"there is no instance type {type}")
        zones = [self.region.zone_of(name.strip()) for name in (zone or self.settings.zones[0]).split(",")]
        alive = self._alive()
        for index in range(len(alive), count):
            alive.append(self._launch(instances.Launch(type, zones[index % len(zones)])))
        self.region.store.commit()
        return alive

    def _launch(self, wanted: instances.Launch) -> str:
        return instances.launch_one(self.region, wanted, running=True).id

    def _alive(self) -> list[str]:
        found = self.region.store.instances.records.values()
        return [each.id for each in found if each.state not in ("shutting-down", "terminated")]

    @property
    def clock(self) -> Callable[[], float]:
        """Seconds since the epoch."""
        return self.region.clock

    @property
    def settings(self) -> Settings:
        """The present settings."""
        return self.region.settings

    def configure(self, changes: Mapping[str, Any]) -> Settings:
        """Changes settings, given in JSON's types. Raises ValueError that names the problem, and then changes
        nothing."""
        changed = self.settings.changed(changes)
        if changed.region != self.settings.region or changed.account != self.settings.account:
            raise ValueError("region and account cannot be changed while the cloud runs")
        self.region.settings = changed
        if "faults" in changes:
            self._hits.clear()
        return changed

    def counters(self) -> dict[str, dict[str, int]]:
        """The number of calls of each action, and of their errors and throttles."""
        return {
            name: {"calls": calls, "errors": self._errors[name], "throttles": self._throttles[name]}
            for name, calls in sorted(self._calls.items())
        }

    def reset_counters(self) -> None:
        """Resets the counters to 0."""
        for counter in (self._calls, self._errors, self._throttles):
            counter.clear()
