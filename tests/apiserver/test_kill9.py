"""kill -9 of the API server under writers and watchers: what it acknowledged is there, watches go on where
they were.

Reduced in `make test`; whole in `make soak` (MOORING_SOAK). Prints the seed; MOORING_SEED repeats it.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import aiohttp
import pytest

pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]

ROUNDS = 50 if os.environ.get("MOORING_SOAK") else 10
WRITERS, NAMES = 6, 4
EVERYWHERE = "/api/v1/configmaps"
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
END = "end"
MERGE = {"content-type": "application/merge-patch+json"}


class Write(NamedTuple):
    """One change, as an answer or a watch tells it. A deleted object has no value."""

    version: int
    name: str
    value: str | None


class Writer:
    """Creates, changes and deletes objects of its own, one request at a time, and notes what was
    acknowledged."""

    def __init__(self, name: str, random: Random) -> None:
        self.name = name
        self.acknowledged: list[Write] = []
        self._random = random
        self._held: dict[str, str] = {}
        self._asked: tuple[str, str | None] | None = None
        self._count = 0

    async def work(self, server: aiohttp.ClientSession) -> None:
        while True:
            self._count += 1
            name = f"{self.name}-{self._random.randrange(NAMES)}"
            value = (
                None if name in self._held and self._random.random() < 0.2 else f"{self.name} {self._count}"
            )
            self._asked = (name, value)
            version = await self._ask(server, name, value)
            self._asked = None
            self.acknowledged.append(Write(version, name, value))
            if value is None:
                del self._held[name]
            else:
                self._held[name] = value

    async def _ask(self, server: aiohttp.ClientSession, name: str, value: str | None) -> int:
        if value is None:
            return version_of(await answer(server.delete(f"{CONFIGMAPS}/{name}")))
        if name not in self._held:
            return version_of(await answer(server.post(CONFIGMAPS, json=config_map(name, self.name, value))))
        if self._random.random() < 0.5:
            return version_of(
                await answer(server.put(f"{CONFIGMAPS}/{name}", json=config_map(name, self.name, value)))
            )
        patch = json.dumps({"data": {"value": value}})
        return version_of(await answer(server.patch(f"{CONFIGMAPS}/{name}", data=patch, headers=MERGE)))

    def compare(self, found: dict[str, str]) -> None:
        """What is there after a restart is what was acknowledged; one request may be done although it had no
        answer."""
        mine = {name: value for name, value in found.items() if name.startswith(f"{self.name}-")}
        if mine != self._held and self._asked is not None:
            name, value = self._asked
            done = {**self._held, name: value}
            assert mine == {name: value for name, value in done.items() if value is not None}
        else:
            assert mine == self._held
        self._held, self._asked = mine, None


class Watcher:
    """Follows the objects whose names begin with `prefix`, from life to life of the server."""

    def __init__(self, path: str, prefix: str = "", **query: str) -> None:
        self.path = path
        self.prefix = prefix
        self.query = query
        self.seen: list[Write] = []
        self.state: dict[str, str] = {}
        self.version = ""

    async def follow(self, server: aiohttp.ClientSession) -> None:
        """Until the server is killed, or the last object of all was made."""
        query = {"watch": "1", "resourceVersion": self.version, **self.query}
        async with server.get(self.path, params=query) as stream:
            async for line in stream.content:
                if line.endswith(b"\n"):  # the last one may have been torn
                    self._see(json.loads(line))
                if END in self.state:
                    return

    def _see(self, event: Any) -> None:
        kind, obj = event["type"], event["object"]
        name = obj["metadata"]["name"]
        write = Write(version_of(obj), name, None if kind == "DELETED" else obj["data"]["value"])
        assert write.version > int(self.version), f"{write} came after {self.version}"
        assert (kind == "ADDED") == (name not in self.state), f"{kind} {write}"
        if write.value is None:
            del self.state[name]
        else:
            self.state[name] = write.value
        self.seen.append(write)
        self.version = str(write.version)


def config_map(name: str, writer: str, value: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {"writer": writer}}, "data": {"value": value}}


async def answer(request: Any) -> Any:
    async with request as got:
        body = await got.json()
        assert got.status < 300, body
        return body


def version_of(obj: Any) -> int:
    """Of a Status, which a delete is answered with, 0."""
    return int(obj["metadata"].get("resourceVersion", 0))


class RestartedServer:
    """Where the server lives, dies and lives again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.command = [
            sys.executable,
            "-m",
            "mooring.cli.main",
            "apiserver",
            f"--data-dir={folder / 'data'}",
        ]

    @asynccontextmanager
    async def server(self) -> AsyncIterator[asyncio.subprocess.Process]:
        """A server that is being started; killed at the end of the block."""
        with (self.folder / "log").open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *self.command, "--port=0", stdout=asyncio.subprocess.PIPE, stderr=log
            )
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await process.communicate()

    async def session(self, process: asyncio.subprocess.Process) -> aiohttp.ClientSession:
        """Requests to a server, as soon as it answers."""
        assert process.stdout is not None
        ready = await process.stdout.readline()
        assert ready.startswith(b"serving"), (self.folder / "log").read_text()
        config = json.loads((self.folder / "data" / "kubeconfig").read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cadata=authority), limit=0)
        headers = {"authorization": f"Bearer {user['token']}"}
        timeout = aiohttp.ClientTimeout(total=None)
        return aiohttp.ClientSession(cluster["server"], headers=headers, connector=connector, timeout=timeout)


async def one_life(
    restarted: RestartedServer, random: Random, writers: list[Writer], watchers: list[Watcher]
) -> None:
    """The server starts, works for a while, and is killed."""
    async with restarted.server() as process, await restarted.session(process) as session:
        listed = await answer(session.get(CONFIGMAPS))
        for writer in writers:
            writer.compare({item["metadata"]["name"]: item["data"]["value"] for item in listed["items"]})
        for watcher in watchers:
            watcher.version = watcher.version or listed["metadata"]["resourceVersion"]
        tasks = [asyncio.create_task(writer.work(session)) for writer in writers]
        tasks += [asyncio.create_task(watcher.follow(session)) for watcher in watchers]
        await asyncio.sleep(random.uniform(0.05, 0.4))
        process.kill()
        for ended in await asyncio.gather(*tasks, return_exceptions=True):
            if ended is not None and not isinstance(ended, aiohttp.ClientError):
                raise ended


async def last_life(
    restarted: RestartedServer, writers: list[Writer], watchers: list[Watcher]
) -> dict[str, str]:
    """The server starts, and every watcher sees the rest; what is there in the end."""
    async with restarted.server() as process, await restarted.session(process) as session:
        await answer(session.post(CONFIGMAPS, json=config_map(END, writers[0].name, "")))
        async with asyncio.timeout(60):
            await asyncio.gather(*(watcher.follow(session) for watcher in watchers))
        found = (await answer(session.get(CONFIGMAPS)))["items"]
        return {item["metadata"]["name"]: item["data"]["value"] for item in found}


def check(writers: list[Writer], watchers: list[Watcher], found: dict[str, str]) -> None:
    """Nothing acknowledged is lost, no version is used twice, and all watchers saw one history, without
    gap."""
    whole = watchers[0]
    assert whole.state == found
    for watcher in watchers:
        assert watcher.seen == [each for each in whole.seen if each.name.startswith((watcher.prefix, END))]
    acknowledged = [each for writer in writers for each in writer.acknowledged]
    written = [each for each in acknowledged if each.value is not None]
    assert len({each.version for each in written}) == len(written)
    assert set(written) <= set(whole.seen)
    deleted = sum(each.value is None for each in acknowledged)
    assert deleted <= sum(each.value is None for each in whole.seen) <= deleted + ROUNDS * WRITERS


async def test_kill_9_loses_nothing_and_watches_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seed = int(os.environ.get("MOORING_SEED", "0")) or int.from_bytes(os.urandom(4))
    with capsys.disabled():
        print(f"\n  seed {seed}")
    random, restarted = Random(seed), RestartedServer(tmp_path)
    writers = [Writer(f"w{number}", Random(random.random())) for number in range(WRITERS)]
    watchers = [
        Watcher(EVERYWHERE),
        Watcher(CONFIGMAPS),
        Watcher(CONFIGMAPS, "w0", labelSelector="writer=w0"),
    ]
    for _ in range(ROUNDS):
        if random.random() < 0.3:
            async with restarted.server():
                await asyncio.sleep(random.uniform(0.2, 0.7))  # killed while it starts
        await one_life(restarted, random, writers, watchers)
    check(writers, watchers, await last_life(restarted, writers, watchers))
    assert sum(len(writer.acknowledged) for writer in writers) > ROUNDS
