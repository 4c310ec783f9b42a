"""What all actions share: the records, the clock, randomness, and the present settings.

An action first checks whether its request can be carried out (every refusal is an `Ec2Error`), then calls
`dry_run`, and only then changes records. From the first change to its end it does not await, so no other call
sees half a change.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, TypeVar

from mooring.cloud.errors import Ec2Error
from mooring.cloud.interface import Devices, Journal, Power
from mooring.cloud.records.resources import Instance, Modification, Snapshot, Starts, Volume
from mooring.cloud.records.store import Store
from mooring.cloud.records.table import Identified, Table
from mooring.cloud.requests.filters import Fields, Matcher, indexed
from mooring.cloud.requests.paging import Page, token_after
from mooring.cloud.requests.parameters import Filter, Request, flag, not_found
from mooring.cloud.settings import Delay, Settings

R = TypeVar("R", bound=Identified)

_APART = 0x9E3779B97F4A7C15
"""Odd, and far from a power of two, so that the seeds of successive starts lie apart."""


class Region:
    """One account's region."""

    def __init__(
        self,
        settings: Settings,
        clock: Callable[[], float],
        rng: random.Random,
        devices: Devices,
        journal: Journal,
        power: Power,
    ) -> None:
        self.settings = settings
        self.clock = clock
        self.rng = rng
        self.devices = devices
        self.power = power
        self.store = Store(journal, clock, self._longest_lag)
        self.snapshotting: dict[str, list[float]] = {}
        """By volume: the start times of snapshots whose data is being copied now."""
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}
        """By volume: its lock, and how many hold or want it."""
        last = self.store.starts.get("starts")
        self._start = Starts(count=last.count + 1 if last else 0)
        self.store.put(self._start)
        self.store.commit()

    # --- time and chance

    def delay(self, of: Delay) -> float:
        """The end of something that begins now and takes a time drawn from `of`."""
        return self.clock() + self.rng.uniform(*of)

    def chance(self, share: float) -> bool:
        """True in that share of cases. Draws no random number for a share of 0 or 1."""
        return share > 0 and (share >= 1 or self.rng.random() < share)

    def new_id(self, prefix: str) -> str:
        """An id of EC2's present form: the prefix, and 17 hexadecimal digits.

        A cloud that is started again with the same seed makes other ids.
        """
        number = (self.rng.getrandbits(64) + self._start.count * _APART) % 2**64
        return f"{prefix}-0{number:016x}"

    def as_of(self, lag: float) -> float | None:
        """The time as of which an answer shows records, drawn from the last `lag` seconds; None: now."""
        return self.clock() - self.rng.uniform(0, lag) if lag > 0 else None

    @asynccontextmanager
    async def device(self, volume: str) -> AsyncGenerator[None]:
        """Serializes operations on a volume's device."""
        lock, users = self._locks.get(volume) or (asyncio.Lock(), 0)
        self._locks[volume] = (lock, users + 1)
        try:
            async with lock:
                yield
        finally:
            _, users = self._locks.pop(volume)
            if users > 1:
                self._locks[volume] = (lock, users - 1)

    # --- records

    def volume(self, id: str) -> Volume:
        """The volume. Raises Ec2Error (InvalidVolume.NotFound)."""
        return _found(self.store.volumes.get(id), "vol", id)

    def snapshot(self, id: str) -> Snapshot:
        """The snapshot. Raises Ec2Error (InvalidSnapshot.NotFound)."""
        return _found(self.store.snapshots.get(id), "snap", id)

    def instance(self, id: str) -> Instance:
        """The instance. Raises Ec2Error (InvalidInstanceID.NotFound)."""
        return _found(self.store.instances.get(id), "i", id)

    def modification(self, id: str) -> Modification | None:
        """The last modification of the volume."""
        return self.store.modifications.get(id)

    def zone_of(self, name: str) -> str:
        """The zone of that name or id. Raises Ec2Error (InvalidZone.NotFound)."""
        for zone in self.settings.zones:
            if name in (zone, zone_id(self.settings, zone)):
                return zone
        raise Ec2Error("InvalidZone.NotFound", f"The zone '{name}' does not exist.")

    def _longest_lag(self) -> float:
        now = self.settings
        return max(now.volumes_lag_s, now.instances_lag_s, now.snapshots_lag_s, now.modifications_lag_s)


_SHORT = {
    "north": "n", "south": "s", "east": "e", "west": "w", "central": "c", "gov": "g",
    "northeast": "ne", "northwest": "nw", "southeast": "se", "southwest": "sw",
}  # fmt: skip
"""The abbreviations in zone ids for the parts of a region's name."""


Action = Callable[[Region, Request], Awaitable[dict[str, Any]]]
"""One of EC2's actions: gives the answer. Raises Ec2Error."""


def dry_run(request: Request) -> None:
    """Raises Ec2Error (DryRunOperation) if the request only asks whether it would succeed."""
    if flag(request, "DryRun"):
        raise Ec2Error("DryRunOperation", "Request would have succeeded, but DryRun flag is set.", 412)


def select(
    table: Table[R],
    filters: Sequence[Filter],
    fields: Fields[R],
    *,
    prefix: str,
    ids: Sequence[str] = (),
    time: float | None = None,
) -> list[R]:
    """The records as of `time` that have one of the ids (all must be there) and pass the filters, by id.

    Raises Ec2Error: ...NotFound with the ids that do not exist, InvalidParameterValue for unknown filters.
    """
    passes = Matcher(filters, fields)
    if ids:
        found = {id: table.as_of(id, time) for id in ids}
        if absent := [id for id, record in found.items() if record is None]:
            raise not_found(prefix, absent)
    else:
        tag = indexed(filters)
        candidates = table.tagged(tag.name.removeprefix("tag:"), tag.values, time) if tag else table.ids(time)
        found = {id: table.as_of(id, time) for id in candidates}
    chosen = [record for record in found.values() if record is not None and passes(record)]
    return sorted(chosen, key=lambda record: record.id)


def paged(records: Iterable[R], page: Page) -> tuple[list[R], dict[str, Any]]:
    """The page of the records, which come by id, and the answer's NextToken if there are more."""
    rest = [record for record in records if record.id > page.after]
    if not page.size or len(rest) <= page.size:
        return rest, {}
    shown = rest[: page.size]
    return shown, {"NextToken": token_after(page.action, shown[-1].id)}


def moment(time: float) -> datetime:
    """A time as answers show it: to the millisecond, in UTC."""
    return datetime.fromtimestamp(round(time, 3), UTC)


def stamp(time: float) -> str:
    """A time as filters compare it."""
    return moment(time).strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment(time).microsecond // 1000:03d}Z"


def zone_id(settings: Settings, zone: str) -> str:
    """A zone's id: "use1-az1" for the first zone of us-east-1; "" if the settings lack the zone."""
    return _zone_ids(settings.region, settings.zones).get(zone, "")


@lru_cache(maxsize=16)
def _zone_ids(region: str, zones: tuple[str, ...]) -> dict[str, str]:
    area, *middle, number = region.split("-")
    short = "".join(_SHORT.get(part, part) for part in middle)
    return {zone: f"{area}{short}{number}-az{index}" for index, zone in enumerate(zones, 1)}


def tag_list(tags: dict[str, str]) -> list[dict[str, str]]:
    """Tags as answers show them."""
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def _found(record: R | None, prefix: str, id: str) -> R:
    if record is None:
        raise not_found(prefix, [id])
    return record
