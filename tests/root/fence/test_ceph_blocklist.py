"""A machine that a real Ceph cluster shuts out, by writes that stop: two machines, each with an address of
its own, write objects."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from itertools import takewhile
from pathlib import Path

import pytest
from ceph_script import SERVES
from tests.fence import contract
from tests.fence.contract import Case
from tests.root.fence.conftest import soak

from mooring.fence.interface import Order, Outcome, State, Target, Volume
from mooring.fence.programs import Run, run
from mooring.fence.storage.ceph_blocklist import CephBlocklist

pytestmark = [
    *soak,
    pytest.mark.root,
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        shutil.which("ceph-mon") is None or shutil.which("ceph-mds", path="/usr/bin:/usr/sbin") is None,
        reason="needs Ceph: apt-get install ceph-mon ceph-osd ceph-mds ceph-common",
    ),
]

SERVER = "10.99.0.1"
MACHINES = {"one": "10.99.1.2", "two": "10.99.2.2"}
NAMESPACES = {each: f"cb{os.getpid()}{each}" for each in ("server", *MACHINES)}


def done(*words: str, timeout: float = 60, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(words, timeout=timeout, input=given, capture_output=True, check=False)


def inside(name: str, *words: str) -> tuple[str, ...]:
    return ("ip", "netns", "exec", NAMESPACES[name], *words)


class Ceph:
    """The cluster, and two machines that reach it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        for each in NAMESPACES.values():
            self._ip("netns", "add", each)
            self._ip("-n", each, "link", "set", "lo", "up")
        self._ip("-n", NAMESPACES["server"], "addr", "add", f"{SERVER}/32", "dev", "lo")
        for name, address in MACHINES.items():
            here, gateway = f"cb-{name}", f"{address.rsplit('.', 1)[0]}.1"
            self._ip("-n", NAMESPACES["server"], "link", "add", here, "type", "veth", "peer", "name", "eth0",
                     "netns", NAMESPACES[name])  # fmt: skip
            for where, link, own in (("server", here, gateway), (name, "eth0", address)):
                self._ip("-n", NAMESPACES[where], "addr", "add", f"{own}/24", "dev", link)
                self._ip("-n", NAMESPACES[where], "link", "set", link, "up")
            self._ip("-n", NAMESPACES[name], "route", "add", "default", "via", gateway)
        script = SERVES.replace("{address}", SERVER).replace("{directory}", str(self.directory))
        self._process = subprocess.Popen(
            inside("server", "unshare", "-m", "sh", "-c", script),
            start_new_session=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        assert self._process.stdout is not None
        said = list(takewhile(lambda line: line != b"serves\n", iter(self._process.stdout.readline, b"")))
        assert self._process.poll() is None, said

    def _ip(self, *words: str) -> None:
        subprocess.run(["ip", *words], check=True, timeout=20)

    def ask(self, *words: str) -> str:
        """The administrator's command."""
        assert self._process is not None
        conf = f"CEPH_CONF={self.directory}/ceph.conf"
        there = ("nsenter", "-t", str(self._process.pid), "-m", "-n", "env", conf, *words)
        found = done(*there)
        assert found.returncode == 0, found.stderr
        return found.stdout.decode()

    def client(self, machine: str, *words: str) -> tuple[str, ...]:
        key = self.directory.parent / "keyring"
        if not key.exists():
            key.write_text(self.ask("ceph", "auth", "get", "client.admin"))
        return inside(machine, *words, "-m", f"{SERVER}:6789", "--name", "client.admin", "-k", str(key))

    def writes(self, machine: str) -> bool:
        """By a client that is new to the cluster."""
        put = self.client(machine, "rados", "-p", "rbd", "put", machine, "/dev/stdin")
        try:
            return done(*put, given=os.urandom(64), timeout=15).returncode == 0
        except subprocess.TimeoutExpired:
            return False

    def stop(self) -> None:
        for each in NAMESPACES.values():
            for pid in done("ip", "netns", "pids", each).stdout.split():
                os.kill(int(pid), signal.SIGKILL)
        if self._process is not None:
            self._process.communicate(timeout=10)
        for each in NAMESPACES.values():
            done("ip", "netns", "delete", each)


@pytest.fixture
def ceph(tmp_path: Path) -> Iterator[Ceph]:
    directory = tmp_path / "ceph"
    directory.mkdir()
    made = Ceph(directory)
    try:
        made.start()
        yield made
    finally:
        made.stop()


def from_the_server(words: object) -> tuple[str, ...]:
    assert isinstance(words, tuple)
    return inside("server", *words)


@pytest.fixture
async def case(ceph: Ceph) -> AsyncIterator[Case]:
    caps = ("mon", 'allow r, allow command "osd blocklist"', "osd", "allow *")
    ceph.ask("ceph", "auth", "get-or-create", "client.fence", *caps)
    key = ceph.ask("ceph", "auth", "print-key", "client.fence").strip()
    target = Target("one", "uid", "boot", addresses=(MACHINES["one"],))
    parameters = {"monitors": f"{SERVER}:6789", "user": "fence"}
    order = Order(target, "token", parameters, {"key": key}, deadline=60)
    there: Run = lambda words, **given: run(from_the_server(tuple(words)), **given)  # noqa: E731
    yield Case(
        CephBlocklist(there),
        order,
        lambda: asyncio.to_thread(ceph.writes, "one"),
        lambda: asyncio.to_thread(ceph.writes, "two"),
        [key],
    )


async def test_a_machine_is_shut_out_and_let_in_again(case: Case, ceph: Ceph):
    """Also a client that had written before."""
    bench = ceph.client("one", "rados", "-p", "rbd", "bench", "120", "write", "-t", "1", "-b", "4096")
    writer = await asyncio.create_subprocess_exec(
        *bench, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    assert writer.stdout is not None
    while b"1 " not in await writer.stdout.readline():  # it has written for a second
        pass
    await contract.a_fence_stops_it_and_an_unfence_lets_it_go_on(case)
    assert await asyncio.wait_for(writer.wait(), 60) != 0
    await contract.the_same_order_again_does_no_more(case)


async def test_an_entry_that_another_takes_away_or_that_ends_soon_lets_it_in(case: Case, ceph: Ceph):
    answer = await case.mechanism.fence(case.order)
    assert (answer.outcome, answer.evidence["daemons"]) == (Outcome.FENCED, "1")
    entry = f"{MACHINES['one']}:0/0"
    ceph.ask("ceph", "osd", "blocklist", "rm", entry)
    assert (await case.mechanism.look(case.order)).state is State.OPEN
    ceph.ask("ceph", "osd", "blocklist", "add", entry, "60")
    assert (await case.mechanism.look(case.order)).state is State.OPEN
    assert (await case.mechanism.fence(case.order)).outcome is Outcome.FENCED
    assert (await case.mechanism.look(case.order)).state is State.SHUT


async def test_a_wrong_key_and_monitors_that_do_not_answer_are_unknown_and_the_key_is_not_told(case: Case):
    wrong = replace(case.order, secrets={"key": "AQAAAAAAAAAAABAAAAAAAAAAAAAAAAAAAAAAAA=="})
    away = replace(case.order, parameters={**case.order.parameters, "monitors": f"{SERVER}:1"})
    for each in (wrong, away):
        answer = await case.mechanism.fence(replace(each, deadline=8))
        assert answer.outcome is Outcome.UNKNOWN
        assert not any(secret in answer.message for secret in case.secrets)
    assert isinstance(case.mechanism, CephBlocklist)
    assert case.mechanism.covers(case.order, Volume("rbd/one", f"{SERVER}:6789"))
    assert not case.mechanism.covers(case.order, Volume("rbd/one", "10.99.0.2:6789"))
