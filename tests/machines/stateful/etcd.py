"""etcd: clients that write and read registers over its JSON gateway, and the check that the registers were
linearizable."""

from __future__ import annotations

import asyncio
import base64
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
from tests.machines.stateful.history import Kind, Operation
from tests.machines.stateful.linearizability import Verdict, judge
from tests.machines.stateful.software import Addresses, Client, Findings, Unanswered
from tests.machines.stateful.tally import Tally

PATIENCE_S = 2.0
CLIENTS = 4
REGISTERS = 3
"""So many at a time."""
ROUND_S = 15.0
"""After so long, other registers are taken: the time that a history needs to be judged grows with its
length."""
PAUSE_S = 0.04


class Etcd:
    """Three members; see `Software`."""

    name = "etcd"
    replicas = 3
    manifest = Path(__file__).with_name("etcd.yaml")
    packages = "etcd-server"
    programs: tuple[str, ...] = ("/usr/bin/etcd",)

    def __init__(self, addresses: Addresses, clock: Callable[[], float], port: int = 2379) -> None:
        self.tally = Tally(clock)
        self.history: list[Operation] = []
        self.port = port
        self._clock = clock
        self._addresses = addresses
        self._session = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=PATIENCE_S, connect=0.5), connector_owner=True
        )
        self._values = count(1)
        self._latest: dict[str, int] = {}
        self._written: dict[str, None] = {}

    async def set_up(self) -> None:
        """Waits for a leader."""
        if not await self._perform(
            self._pod(Random(0)), Operation("first", Kind.PUT, self._clock(), value=0)
        ):
            raise Unanswered("etcd accepts no write")

    def clients(self, random: Random) -> list[Client]:
        """Writers and readers, mixed."""
        seeds = [random.random() for _ in range(CLIENTS)]
        return [lambda seed=seed: self._client(Random(seed)) for seed in seeds]

    async def _client(self, random: Random) -> None:
        while True:
            key = f"r{int(self._clock() // ROUND_S)}-{random.randrange(REGISTERS)}"
            kind = random.choice(list(Kind))
            operation = Operation(
                key,
                kind,
                self._clock(),
                value=0 if kind is Kind.GET else next(self._values),
                expected=self._latest.get(key, 0) if kind is Kind.CAS else 0,
            )
            await self._perform(self._pod(random), operation)
            await asyncio.sleep(random.uniform(0, 2 * PAUSE_S))

    def _pod(self, random: Random) -> str:
        return f"{self.name}-{random.randrange(self.replicas)}"

    async def _perform(self, pod: str, operation: Operation) -> bool:
        """Does it and writes down what was seen; whether there was an answer. What was certainly not sent is
        not written down; what is cancelled may have been sent."""
        where, body = REQUESTS[operation.kind](operation)
        sent, answer = True, None
        try:
            address = self._addresses[pod]
            url = f"http://{address}:{self.port}/v3/kv/{where}"
            async with self._session.post(url, json=body) as reply:
                answer = await reply.json(content_type=None) if reply.status == 200 else None
        except (KeyError, aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):
            sent = False
        except (aiohttp.ClientError, TimeoutError, ValueError):
            pass
        finally:
            if sent:
                self._record(operation, answer)
        if not sent:
            await asyncio.sleep(0.05)
        return answer is not None

    def _record(self, operation: Operation, answer: Any) -> None:
        if answer is not None:
            operation = replace(seen(operation, answer), returned=self._clock())
        if operation.kind is Kind.GET:
            self.tally.reads += operation.known
            if operation.known:
                self._latest[operation.key] = operation.value
        else:
            self.tally.write(operation.known)
            self._latest[operation.key] = operation.value
        self._written[operation.key] = None
        self.history.append(operation)

    async def last_look(self) -> None:
        """Reads every register once more, at every member."""
        for key in self._written:
            for ordinal in range(self.replicas):
                operation = Operation(key, Kind.GET, self._clock())
                if not await self._perform(f"{self.name}-{ordinal}", operation):
                    raise Unanswered(f"etcd-{ordinal} does not answer a read of {key}")

    def judge(self) -> Findings:
        """Whether each register was linearizable."""
        judgements = judge(self.history)
        counts = Counter(each.verdict for each in judgements)
        bad = [each for each in judgements if each.verdict is Verdict.VIOLATED]
        unsure = [each for each in judgements if each.verdict is Verdict.GAVE_UP]
        return Findings(
            ", ".join(f"{number} registers {verdict}" for verdict, number in counts.items()),
            [f"register {each.key} is not linearizable: none can be next of {each.stuck}" for each in bad],
            [f"register {each.key}: the checker gave up after {each.steps} steps" for each in unsure],
            self.history,
        )

    async def close(self) -> None:
        await self._session.close()


def _coded(text: str | int) -> str:
    return base64.b64encode(str(text).encode()).decode()


def _put(operation: Operation) -> tuple[str, dict[str, Any]]:
    return "put", {"key": _coded(operation.key), "value": _coded(operation.value)}


def _get(operation: Operation) -> tuple[str, dict[str, Any]]:
    return "range", {"key": _coded(operation.key)}  # linearizable, unless `serializable` is asked for


def _cas(operation: Operation) -> tuple[str, dict[str, Any]]:
    key = _coded(operation.key)
    found = {"target": "VALUE", "value": _coded(operation.expected)}
    compare = {"key": key, "result": "EQUAL"} | (
        found if operation.expected else {"target": "VERSION", "version": 0}
    )
    success, failure = {"requestPut": _put(operation)[1]}, {"requestRange": {"key": key}}
    return "txn", {"compare": [compare], "success": [success], "failure": [failure]}


REQUESTS = {Kind.PUT: _put, Kind.GET: _get, Kind.CAS: _cas}


def seen(operation: Operation, answer: Any) -> Operation:
    """Returns the operation as the answer shows it; a swap that failed is a get of what it found."""
    if operation.kind is Kind.PUT or answer.get("succeeded"):
        return operation
    found = answer if operation.kind is Kind.GET else answer["responses"][0]["response_range"]
    values = found.get("kvs", [])
    value = int(base64.b64decode(values[0]["value"])) if values else 0
    return Operation(operation.key, Kind.GET, operation.called, value=value)
