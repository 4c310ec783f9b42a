"""Servers of NFS, iSCSI and NBD that two machines use, and out of which one of them is shut.

One cluster for all of them, in one process (`--dist loadfile`): addresses of servers are this host's. That
each serves two machines, and that one that is shut out writes no more, is always played; the rest with
MOORING_SOAK.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from asyncio import gather
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.machines.conftest import FLAGS
from tests.machines.machines import MIB, inside, order

from mooring.cluster import control
from mooring.cluster.layout import ClusterError
from mooring.cluster.machines.boot_orders import run_directory
from mooring.cluster.machines.uml import mconsole
from mooring.cluster.stage import Stage
from mooring.cluster.storage import programs
from mooring.cluster.storage.record import Kind
from mooring.mounts.blocking import blocking

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.root,
    pytest.mark.timeout(300),
    pytest.mark.soak,
]
soak = pytest.mark.skipif("MOORING_SOAK" not in os.environ, reason="minutes: `make soak` plays it")

ONE, TWO = "node-1", "node-2"
NODES = (ONE, TWO)
QUICK = (
    "iscsiadm -m node -o update -n node.session.timeo.replacement_timeout -v 2 && iscsiadm -m node --login"
)
"""Its kernel gives I/O up after two seconds without a session, where it would after two minutes."""
WRITES = """(
i=0
while ! test -e /run/enough && dd if=/dev/zero of=FILE bs=4k count=1 seek=$i oflag=direct conv=notrunc
do i=$((i+1)); sleep 0.01; done
touch /run/ended-NAME
) > /dev/null 2>&1 &"""


@pytest.fixture(scope="session", autouse=True)
def _installed() -> None:
    try:
        for kind in Kind:
            programs.check(kind)
    except ClusterError as error:
        pytest.skip(str(error))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage() -> AsyncIterator[Stage]:
    """A cluster of two machines with a server of each kind, named like it; afterwards nothing is left."""
    directory = Path(tempfile.mkdtemp(prefix="mooring-test-"))
    stage = Stage(directory)
    try:
        await stage.up(*FLAGS)
        await stage.until("both nodes are Ready", lambda: stage.ready_nodes(2))
        await gather(*(storage(stage, kind, kind, "--size", "64Mi") for kind in Kind))
        yield stage
    finally:
        status, answer = await stage.down()
    assert status == 0, answer
    assert stage.leftovers() == []
    shutil.rmtree(directory)


@pytest_asyncio.fixture(loop_scope="module")
async def servers(stage: Stage) -> AsyncIterator[dict[str, dict[str, Any]]]:
    """What `list` says of them, by name. Afterwards nobody is shut out or connected."""
    yield await listed(stage)
    out = [(name, node) for name, server in (await listed(stage)).items() for node in server["shutOut"]]
    await gather(*(storage(stage, "let-in", name, node) for name, node in out))
    leave = "umount -f /mnt/nfs; iscsiadm -m node --logout; nbd-client -d /dev/nbd0"
    for node in NODES:
        await order(stage, "heal", node)
    await gather(*(stage.run_in(node, leave) for node in NODES))


async def storage(stage: Stage, *words: str) -> str:
    """Orders it of a storage server; the answer. The test fails if it is refused."""
    status, answer = await stage.command("storage", *words)
    assert status == 0, answer
    return answer


async def listed(stage: Stage) -> dict[str, dict[str, Any]]:
    said = await control.say(stage.layout.control, "storage-list", "")
    return {each["name"]: each for each in json.loads(said)}


async def connect_all(stage: Stage, servers: dict[str, dict[str, Any]], nbd_s: int = 30) -> None:
    """Both machines to each server."""
    await gather(*(connect(stage, each, node, nbd_s) for each in servers.values() for node in NODES))


async def connect(stage: Stage, server: dict[str, Any], node: str, nbd_s: int = 30) -> None:
    """As `list` says it; an iSCSI client gives up sooner."""
    commands = server["commands"]
    await inside(stage, commands.get("prepare", "true"), node)
    command = commands["connect"].replace("-t 30", f"-t {nbd_s}")
    if server["kind"] == Kind.ISCSI:
        discovery, rest = command.split(" && ", 1)
        command = f"{discovery} && {QUICK} && {rest.split(' && ', 1)[1]}"
    await inside(stage, command, node)


def medium(server: dict[str, Any]) -> str:
    """The device or file by which a machine writes to a server."""
    target = f"{server['address']}:3260-iscsi-{server['target']}"
    return {
        Kind.NFS: f"/mnt/{server['name']}/$(hostname)",
        Kind.ISCSI: f"/dev/disk/by-path/ip-{target}-lun-1",
        Kind.NBD: "/dev/nbd0",
    }[Kind(server["kind"])]


def write(server: dict[str, Any]) -> str:
    """A script that fails if a block cannot be written."""
    return f"dd if=/dev/zero of={medium(server)} bs=4k count=1 oflag=direct,nonblock conv=notrunc"


async def test_all_three_serve_two_machines_which_see_each_others_data(
    stage: Stage, servers: dict[str, dict[str, Any]]
) -> None:
    await connect_all(stage, servers)
    assert {name: each["connected"] for name, each in (await listed(stage)).items()} == {
        kind.value: list(NODES) for kind in Kind
    }
    await inside(stage, "echo written by one > /mnt/nfs/file", ONE)
    assert await inside(stage, "cat /mnt/nfs/file && echo by two > /mnt/nfs/other", TWO) == "written by one"
    assert await inside(stage, "cat /mnt/nfs/other", ONE) == "by two"
    for kind in (Kind.ISCSI, Kind.NBD):
        device = medium(servers[kind])
        text = f"{kind} of one"
        await inside(stage, f"echo '{text}' | dd of={device} bs=4k conv=sync oflag=direct", ONE)
        assert (
            await inside(stage, f"dd if={device} bs=4k count=1 iflag=direct 2> /dev/null | head -n 1", TWO)
            == text
        )
    buffers = await inside(stage, "ss --tcp --memory --numeric 'dport = :3260' | grep -o 'rb[0-9]*'", ONE)
    assert all(int(each.removeprefix("rb")) >= MIB for each in buffers.split()), "or reads are slow"
    for kind in Kind:
        status, answer = await stage.command("storage", "remove", kind)
        assert status == 1
        assert "is used by node-1, node-2" in answer


@soak
async def test_a_preempted_machines_write_fails_with_a_reservation_conflict(
    stage: Stage, servers: dict[str, dict[str, Any]]
) -> None:
    server = servers[Kind.ISCSI]
    device = medium(server)
    for node, key in ((ONE, "0xa1"), (TWO, "0xb2")):
        await connect(stage, server, node)
        await inside(stage, f"sg_persist --out --register --param-sark={key} {device}", node)
    await inside(stage, f"sg_persist --out --reserve --param-rk=0xa1 --prout-type=5 {device}", ONE)
    for node in NODES:
        await inside(stage, write(server), node)
    preempt = "sg_persist --out --preempt --param-rk=0xb2 --param-sark=0xa1 --prout-type=5"
    await inside(stage, f"{preempt} {device}", TWO)
    assert "0xa1" not in await inside(stage, f"sg_persist --in --read-keys {device}", TWO)
    assert (await stage.run_in(ONE, write(server)))[0] != 0
    assert "critical nexus error" in await inside(stage, "dmesg", ONE)
    await inside(stage, write(server), TWO)
    await inside(stage, f"sg_persist --out --clear --param-rk=0xb2 {device}", TWO)


async def test_a_machine_that_is_shut_out_writes_no_more_and_the_other_goes_on(
    stage: Stage, servers: dict[str, dict[str, Any]]
) -> None:
    await writing_until_one_is_shut_out(stage, servers)
    assert {name: (each["connected"], each["shutOut"]) for name, each in (await listed(stage)).items()} == {
        kind.value: ([TWO], [ONE]) for kind in Kind
    }
    status, answer = await stage.command("status", "-o", "json")
    assert status == 0
    assert {
        each["server"]: (each["connected"], each["shut_out"]) for each in json.loads(answer)["servers"]
    } == {kind.value: (TWO, ONE) for kind in Kind}
    for name, server in servers.items():
        await stage.until(f"writes to {name} fail", lambda name=name: there(stage, f"/run/ended-{name}"))
        await inside(stage, f"! test -e /run/ended-{name}", TWO)
        await inside(stage, write(server), TWO)
    assert await cannot_write(stage, servers)
    await inside(stage, "touch /run/enough", TWO)


@soak
async def test_a_server_that_died_does_not_let_in_who_was_shut_out(
    stage: Stage, servers: dict[str, dict[str, Any]]
) -> None:
    await writing_until_one_is_shut_out(stage, servers)
    await killed(stage, servers)
    assert await cannot_write(stage, servers)
    await inside(stage, "touch /run/enough", TWO)
    for name in servers:
        await storage(stage, "let-in", name, ONE)
    await inside(stage, "cat /mnt/nfs/$(hostname) > /dev/null", ONE)


async def writing_until_one_is_shut_out(stage: Stage, servers: dict[str, dict[str, Any]]) -> None:
    """Both machines write to each server, until the first one cannot."""
    await connect_all(stage, servers, nbd_s=3)
    begin = "rm -f /run/enough /run/ended-*\n" + "\n".join(
        WRITES.replace("FILE", medium(server)).replace("NAME", name) for name, server in servers.items()
    )
    await gather(*(inside(stage, begin, node) for node in NODES))
    await gather(*(storage(stage, "shut-out", name, ONE) for name in servers))


async def cannot_write(stage: Stage, servers: dict[str, dict[str, Any]]) -> bool:
    """Whether the first machine fails to write to each of them, or is kept waiting."""
    tries = (stage.run_in(ONE, f"timeout -s KILL 5 {write(server)}") for server in servers.values())
    return all(status != 0 for status, _ in await gather(*tries))


async def there(stage: Stage, path: str) -> bool:
    return (await stage.run_in(ONE, f"test -e {path}"))[0] == 0


async def killed(stage: Stage, servers: dict[str, dict[str, Any]]) -> None:
    """kill -9 of the servers of the host; waits until they serve again."""
    before = {kind: stage.part(f"storage-{kind}") for kind in (Kind.ISCSI, Kind.NBD)}
    for kind in before:
        stage.kill_part(f"storage-{kind}")

    async def again() -> bool:
        new = all(stage.part(f"storage-{kind}") not in (None, old) for kind, old in before.items())
        return new and not any(each["problem"] for each in (await listed(stage)).values())

    await stage.until("all serve again", again)


@soak
async def test_a_machine_that_is_cut_from_storage_waits_and_goes_on_when_it_is_healed(
    stage: Stage, servers: dict[str, dict[str, Any]]
) -> None:
    for server in servers.values():
        await connect(stage, server, ONE)
    answer = await order(stage, "cut", ONE, "--from", "storage")
    assert "cut from storage" in answer
    for name, server in servers.items():
        await inside(stage, f"({write(server)}; touch /run/healed-{name}) > /dev/null 2>&1 &", ONE)
    status, _ = await stage.run_in(
        ONE, f"timeout 1 bash -c 'exec 3<>/dev/tcp/{servers['nbd']['address']}/10809'"
    )
    assert status != 0
    for name in servers:
        assert not await there(stage, f"/run/healed-{name}")
    assert await stage.ready_nodes(2)
    await order(stage, "heal", ONE)
    for name in servers:
        await stage.until(
            f"the write to {name} has ended", lambda name=name: there(stage, f"/run/healed-{name}")
        )


@soak
async def test_an_nfs_server_whose_kernel_panics_boots_again_and_its_client_keeps_its_lock(
    stage: Stage, servers: dict[str, dict[str, Any]]
) -> None:
    await connect(stage, servers[Kind.NFS], ONE)
    await inside(stage, "(exec 9> /mnt/nfs/lock; flock 9; sleep 60) > /dev/null 2>&1 &", ONE)
    await connect(stage, servers[Kind.NFS], TWO)
    locked = "timeout -s KILL 40 flock -n /mnt/nfs/lock true"
    assert (await stage.run_in(TWO, locked))[0] == 1
    console = run_directory(stage.layout.root) / "storage-nfs" / "storage-nfs" / "mconsole"
    with contextlib.suppress(mconsole.NoAnswer):
        await blocking(mconsole.order, console, "sysrq c")
    assert (await stage.run_in(TWO, locked))[0] == 1
    assert "Kernel panic" in (stage.layout.logs / "machine-storage-nfs.log").read_text()
    assert "lost" not in await inside(stage, "dmesg", ONE)


@soak
async def test_servers_are_back_after_the_next_up_with_their_data_and_who_is_shut_out(
    stage: Stage, servers: dict[str, dict[str, Any]]
) -> None:
    await connect(stage, servers[Kind.NFS], ONE)
    await inside(stage, "echo kept > /mnt/nfs/file && sync /mnt/nfs/file", ONE)
    for name in servers:
        await storage(stage, "shut-out", name, TWO)
    stage.kill_part("up")
    status, answer = await stage.down()
    assert status == 0
    for kind in Kind:
        assert f"address of storage server {kind}" in answer
    assert stage.leftovers() == []
    await stage.up(*FLAGS)
    await stage.until("both nodes are Ready", lambda: stage.ready_nodes(2))
    after = await listed(stage)
    assert {name: (each["address"], each["shutOut"], each["problem"]) for name, each in after.items()} == {
        name: (each["address"], [TWO], "") for name, each in servers.items()
    }
    await connect(stage, after[Kind.NFS], ONE)
    assert await inside(stage, "cat /mnt/nfs/file", ONE) == "kept"
    assert (await stage.run_in(TWO, after[Kind.NFS]["commands"]["connect"]))[0] != 0


@soak
async def test_a_removed_servers_data_is_kept_until_it_is_deleted(stage: Stage) -> None:
    await storage(stage, "nbd", "data", "--size", "64Mi", "--disks", "2")
    server = (await listed(stage))["data"]
    await connect(stage, server, ONE)
    await inside(
        stage, "echo kept | dd of=/dev/nbd0 bs=4k conv=sync oflag=direct && nbd-client -d /dev/nbd0", ONE
    )
    await stage.until("it is disconnected", lambda: unused(stage, "data"))
    await storage(stage, "remove", "data")
    other = await stage.command("storage", "nbd", "data", "--size", "32Mi")
    assert other[0] == 1
    assert "the data of data is kept" in other[1]
    await storage(stage, "nbd", "data", "--size", "64Mi", "--disks", "2")
    await connect(stage, (await listed(stage))["data"], TWO)
    assert await inside(stage, "head -n 1 /dev/nbd0; nbd-client -d /dev/nbd0", TWO) == "kept"
    await stage.until("it is disconnected", lambda: unused(stage, "data"))
    await storage(stage, "remove", "data", "--delete-data")
    assert "data" not in await listed(stage)
    assert not (stage.layout.root / "storage" / "data").exists()


async def unused(stage: Stage, name: str) -> bool:
    return not (await listed(stage))[name]["connected"]


@soak
async def test_without_a_machine_with_a_kernel_of_its_own_there_are_no_servers(data_dir: Path) -> None:
    stage = Stage(data_dir)
    try:
        await stage.up("--machines", "namespace=1", "--port", "0")
        status, answer = await stage.command("storage", "nbd", "data")
        assert status == 1
        assert "mooring up --machines uml" in answer
        assert len(answer.splitlines()) == 1
    finally:
        await stage.down()
    assert stage.leftovers() == []
