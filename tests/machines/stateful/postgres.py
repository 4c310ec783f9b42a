"""PostgreSQL: clients that insert numbered rows and read them, and the check that none is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, cast

import asyncpg
from tests.machines.stateful.history import NEVER
from tests.machines.stateful.ledger import PAGE, Insert, Read, violations
from tests.machines.stateful.software import Addresses, Client, Findings, Unanswered
from tests.machines.stateful.tally import Tally

PATIENCE_S = 2.0
CLIENTS = 3
PAUSE_S = 0.03
READ_PAUSE_S = 0.5
_connect: Any = cast(Any, asyncpg).connect  # its types are incomplete
FAILURES = (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError)


class Postgres:
    """A primary and its standby; see `Software`."""

    name = "postgres"
    replicas = 2
    manifest = Path(__file__).with_name("postgres.yaml")
    packages = "postgresql-15"
    programs: tuple[str, ...] = ("/usr/lib/postgresql/15/bin/postgres",)

    def __init__(self, addresses: Addresses, clock: Callable[[], float]) -> None:
        self.tally = Tally(clock)
        self.inserts: list[Insert] = []
        self.reads: list[Read] = []
        self._clock = clock
        self._addresses = addresses
        self._rows = count()

    async def set_up(self) -> None:
        """Makes the table, and has it on disk whatever the software is told about commits."""
        async with self._connected(0) as connection:
            await connection.execute(
                "CREATE TABLE IF NOT EXISTS ledger (row bigint PRIMARY KEY)", timeout=PATIENCE_S
            )
            await connection.execute("CHECKPOINT", timeout=5 * PATIENCE_S)

    def clients(self, random: Random) -> list[Client]:
        """Writers, and one reader."""
        seeds = [random.random() for _ in range(CLIENTS)]
        writers: list[Client] = [lambda seed=seed: self._writer(Random(seed)) for seed in seeds]
        seed = random.random()
        return [*writers, lambda: self._reader(Random(seed))]

    @asynccontextmanager
    async def _connected(self, ordinal: int) -> AsyncGenerator[Any]:
        """A connection to a pod. Raises `Unanswered` if anything fails meanwhile."""
        connection: Any = None
        try:
            connection = await _connect(
                host=self._addresses[f"{self.name}-{ordinal}"],
                user="postgres",
                database="postgres",
                timeout=PATIENCE_S,
                ssl=False,
            )
            yield connection
        except (KeyError, *FAILURES) as error:
            raise Unanswered(f"{self.name}-{ordinal}: {type(error).__name__}: {error}") from error
        finally:
            if connection is not None:
                connection.terminate()

    async def _writer(self, random: Random) -> None:
        while True:
            try:
                async with self._connected(0) as connection:
                    while True:
                        await self._insert(connection)
                        await asyncio.sleep(random.uniform(0, 2 * PAUSE_S))
            except Unanswered:
                await asyncio.sleep(0.2)

    async def _insert(self, connection: Any) -> None:
        row, sent, acknowledged = next(self._rows), self._clock(), NEVER
        try:
            await connection.execute("INSERT INTO ledger VALUES ($1)", row, timeout=PATIENCE_S)
            acknowledged = self._clock()
        finally:
            self.inserts.append(Insert(row, sent, acknowledged))
            self.tally.write(acknowledged != NEVER)

    async def _reader(self, random: Random) -> None:
        while True:
            try:
                async with self._connected(0) as connection:
                    while True:
                        last = len(self.inserts) // PAGE
                        await self._read(connection, random.choice([last, random.randint(0, last)]))
                        await asyncio.sleep(READ_PAUSE_S)
            except Unanswered:
                await asyncio.sleep(0.2)

    async def _read(self, connection: Any, page: int, where: str = "the primary") -> None:
        began = self._clock()
        query = "SELECT row FROM ledger WHERE row >= $1 AND row < $2"
        rows: list[Any] = []
        with suppress(asyncpg.UndefinedTableError):  # it was made, and acknowledged: its rows are lost
            rows = await connection.fetch(query, page * PAGE, (page + 1) * PAGE, timeout=10)
        found = frozenset(each["row"] for each in rows)
        self.reads.append(Read(page, began, self._clock(), found, where))
        self.tally.reads += 1

    async def last_look(self) -> None:
        """Reads all rows of the primary, and those of the standby once it has replayed all that the primary
        has."""
        pages = range(len(self.inserts) // PAGE + 2)
        async with self._connected(0) as primary:
            for page in pages:
                await self._read(primary, page)
            end = await primary.fetchval("SELECT pg_current_wal_flush_lsn()::text", timeout=PATIENCE_S)
        async with self._connected(1) as standby:
            if not await standby.fetchval("SELECT pg_is_in_recovery()", timeout=PATIENCE_S):
                raise AssertionError("the standby is no standby any more")
            caught_up = "SELECT coalesce(pg_last_wal_replay_lsn() >= $1::text::pg_lsn, false)"
            if not await standby.fetchval(caught_up, end, timeout=PATIENCE_S):
                raise Unanswered(f"the standby has not replayed up to {end}")
            for page in pages:
                await self._read(standby, page, "the standby")

    def judge(self) -> Findings:
        """Whether all rows that were acknowledged are in all reads after."""
        found = violations(self.inserts, self.reads)
        checked = f"{len(self.inserts)} rows in {len(self.reads)} reads"
        return Findings(checked, found, history=[*self.inserts, *self.reads])

    async def close(self) -> None:
        """Connections end with their clients."""
