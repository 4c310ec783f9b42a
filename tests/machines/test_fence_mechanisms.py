"""Each family of fence mechanisms on machines with a kernel of their own: it works if the writes stop."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shlex
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml
from tests.machines.conftest import FLAGS
from tests.machines.machines import inside, medium, plugged

from mooring.cluster.layout import ClusterError
from mooring.cluster.machines.bmc.bmcs import directory
from mooring.cluster.machines.bmc.inventory import Paths, load
from mooring.cluster.machines.bmc.reach import reach
from mooring.cluster.machines.guest_program import command
from mooring.cluster.stage import Stage
from mooring.fence.agents import kinds
from mooring.fence.interface import Mechanism, Order, Outcome, State, Target
from mooring.fence.network.nft import Nft
from mooring.fence.programs import OUTPUT_BYTES, Ended
from mooring.fence.storage.iscsi_tgt import IscsiTgt
from mooring.fence.storage.nfs_export import NfsExport
from mooring.fence.storage.scsi_pr import ScsiPr

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.root, pytest.mark.timeout(300)]
soak = pytest.mark.skipif("MOORING_SOAK" not in os.environ, reason="minutes: `make soak` plays them")

ONE, TWO = "node-1", "node-2"
PROGRAMS = ("ipmi_sim", "ipmitool", "fence_ipmilan", "snmpget", "nft", "tgtd", "sg_persist")
QUICK = {"power_timeout": "7", "login_timeout": "5", "shell_timeout": "5"}
WRITES = (
    "(while :; do date +%N | dd of={} bs=512 count=1 conv=sync,notrunc oflag=direct; sleep 0.02; done) "
    "> /dev/null 2>&1 &"
)
HEARS = """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("", 7777)); file = open("/run/heard", "ab", 0)
while True: file.write(s.recv(99))
"""
SPEAKS = """
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
while True:
    time.sleep(0.05)
    try: s.sendto(b"x", (sys.argv[1], 7777))
    except OSError: pass
"""
APPENDS = """
import time
while True:
    with open("/mnt/n/file", "ab", 0) as file: file.write(b"x")
    time.sleep(0.05)
"""


def running(program: str, *words: str) -> str:
    """A script that leaves it running."""
    return f"nohup python3 -c {shlex.quote(program)} {shlex.join(words)} > /dev/null 2>&1 &"


@pytest.fixture(scope="session", autouse=True)
def _installed() -> None:
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    if missing := [each for each in PROGRAMS if shutil.which(each, path=path) is None]:
        pytest.skip(
            f"needs {', '.join(missing)}: apt-get install openipmi ipmitool fence-agents snmp nftables tgt sg3-utils"
        )


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage() -> AsyncIterator[Stage]:
    """Two machines with BMCs, a power strip and a switch."""
    stage = Stage(Path(tempfile.mkdtemp(prefix="mooring-test-")))
    try:
        await stage.up(*FLAGS, "--bmc")
        await stage.until("both nodes are Ready", lambda: stage.ready_nodes(2))
        yield stage
    finally:
        status, answer = await stage.down()
    assert status == 0, answer
    assert stage.leftovers() == []
    shutil.rmtree(stage.layout.root)


def device(stage: Stage, kind: str) -> tuple[Mechanism, Order]:
    """The mechanism and an order for the first machine."""
    paths = Paths(directory(stage.layout))
    inventory = load(paths)
    assert inventory is not None
    told = reach(paths, inventory, next(each for each in inventory.machines if each.name == ONE))
    password = paths.password.read_text().strip()
    snmp = {
        "snmp_version": "3",
        "snmp_sec_level": "authPriv",
        "snmp_auth_prot": "SHA",
        "snmp_priv_prot": "AES",
    }
    own: dict[str, dict[str, str]] = {
        "ipmi": {"ipport": str(told["ipmi"]["port"]), "cipher": "3"},
        "redfish": {
            "ipport": told["redfish"]["url"].rsplit(":", 1)[1],
            "ca_certificate": paths.certificate.read_text(),
        },
        "power-strip": {
            "ipport": str(told["powerStrip"]["port"]),
            "plug": str(told["powerStrip"]["socket"]),
            **snmp,
        },
        "switch-port": {
            "ipport": str(told["switch"]["port"]),
            "plug": str(told["switch"]["interface"]),
            **snmp,
        },
    }
    made = {"ipmi": kinds.ipmi, "redfish": kinds.redfish, "power-strip": kinds.power_strip}.get(
        kind, kinds.switch_port
    )
    secrets = {"password": password, **({"snmp_priv_passwd": password} if "plug" in own[kind] else {})}
    given = {"ip": told["address"], "username": told["user"], **own[kind], **QUICK}
    target = Target(ONE, "uid", "boot", system_uuid=told["systemUUID"])
    return made(), Order(target, "token-1", given, secrets)


async def written(stage: Stage, disk: str) -> bool:
    """Whether what is on the disk changes."""

    def first() -> bytes:
        with medium(stage, disk).open("rb") as file:
            return file.read(512)

    before = await asyncio.to_thread(first)
    await asyncio.sleep(1)
    return await asyncio.to_thread(first) != before


async def powered(stage: Stage, node: str = ONE) -> bool:
    """Whether commands can be given in it."""
    try:
        return (await stage.run_in(node, "true"))[0] == 0
    except ClusterError:
        return False


@pytest.mark.parametrize(
    "kind", ["ipmi", pytest.param("redfish", marks=soak), pytest.param("power-strip", marks=soak)]
)
async def test_what_is_switched_off_writes_nothing_any_more(stage: Stage, kind: str) -> None:
    mechanism, order = device(stage, kind)
    link = await plugged(stage, kind)
    await inside(stage, WRITES.format(link))
    assert await written(stage, kind)
    answer = await mechanism.fence(order)
    assert (answer.outcome, answer.before) == (Outcome.FENCED, State.OPEN), answer
    assert not await written(stage, kind)
    assert not stage.has_power(ONE)
    assert (await mechanism.unfence(order)).outcome is Outcome.UNFENCED
    await stage.until("it is on again", lambda: powered(stage))


async def link_of(stage: Stage, node: str) -> tuple[str, str]:
    """MAC and address by which the bridge knows a machine."""
    told: list[dict[str, Any]] = json.loads(await inside(stage, "ip -j -4 route get 10.88.0.1", node))
    address = told[0]["prefsrc"]
    mac = await inside(stage, f"cat /sys/class/net/{told[0]['dev']}/address", node)
    return mac, address


async def served(stage: Stage, node: str) -> str:
    """Takes what it is sent at port 7777 of the machine, to a file; the machine's address."""
    await inside(stage, running(HEARS), node)

    async def listens() -> bool:
        return (await stage.run_in(node, "test -e /run/heard"))[0] == 0

    await stage.until("it listens", listens)
    return (await link_of(stage, node))[1]


async def heard(stage: Stage, node: str = TWO) -> bool:
    """Whether what it has received grows."""
    before = await inside(stage, "wc -c < /run/heard", node)
    await asyncio.sleep(1)
    return await inside(stage, "wc -c < /run/heard", node) != before


async def speaks(stage: Stage, to: str) -> None:
    await inside(stage, running(SPEAKS, to), ONE)


def cut(stage: Stage, mac: str, address: str) -> Order:
    """An order to cut that link and to leave open the way to the API server."""
    target = Target(ONE, "uid", "boot", addresses=(address,), macs=(mac,))
    server = yaml.safe_load(stage.layout.kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
    pods = f"{address.rsplit('.', 1)[0]}.0/24"
    return Order(target, "token-1", {"leave-open": f"10.88.0.1:{server.rsplit(':', 1)[1]}", "networks": pods})


async def test_what_is_cut_off_by_nftables_is_heard_no_more_by_its_peers_and_reports_to_the_api(
    stage: Stage,
) -> None:
    await speaks(stage, await served(stage, TWO))
    assert await heard(stage)
    order = cut(stage, *await link_of(stage, ONE))
    assert Nft().problems(order) == []
    answer = await Nft().fence(order)
    assert answer.outcome is Outcome.FENCED, answer
    assert not await heard(stage)
    await asyncio.sleep(9)  # longer than the node may be silent
    assert await stage.ready_nodes(2)
    assert (await Nft().unfence(order)).outcome is Outcome.UNFENCED
    assert await heard(stage)


@pytest.mark.parametrize("kind", ["nft", pytest.param("switch-port", marks=soak)])
async def test_what_is_cut_off_writes_nothing_to_storage_on_the_network_until_the_fence_is_lifted(
    stage: Stage, kind: str
) -> None:
    """And goes on then with what it had not written yet, which is why a fence of the network is lifted only
    for another boot."""
    async with appending(stage) as grows:
        by_nft: tuple[Mechanism, Order] = Nft(), cut(stage, *await link_of(stage, ONE))
        mechanism, order = by_nft if kind == "nft" else device(stage, kind)
        answer = await mechanism.fence(order)
        assert answer.outcome is Outcome.FENCED, answer
        assert not await grows()
        await asyncio.sleep(5)
        assert not await grows()
        assert (await mechanism.unfence(order)).outcome is Outcome.UNFENCED
        await stage.until("it writes on", grows)


@soak
async def test_a_port_of_the_switch_that_is_down_lets_nothing_through(stage: Stage) -> None:
    await speaks(stage, await served(stage, TWO))
    mechanism, order = device(stage, "switch-port")
    assert await heard(stage)
    assert (await mechanism.fence(order)).outcome is Outcome.FENCED
    assert not await heard(stage)
    assert (await mechanism.unfence(order)).outcome is Outcome.UNFENCED
    assert await heard(stage)


# --- storage


class In:
    """Runs a mechanism's programs in a machine of the cluster."""

    def __init__(self, stage: Stage, node: str) -> None:
        self._stage, self._node = stage, node

    async def __call__(
        self,
        words: Sequence[str],
        *,
        deadline: float,
        given: bytes = b"",
        environ: Mapping[str, str] = {},
        keep: int = OUTPUT_BYTES,
    ) -> Ended:
        script = f"timeout -s KILL {deadline:.0f} {shlex.join(words)}"
        status, output = await self._stage.run_in(self._node, script)
        return Ended(status, output[:keep])


async def storage(stage: Stage, *words: str) -> str:
    status, answer = await stage.command("storage", *words)
    assert status == 0, answer
    return answer


@pytest_asyncio.fixture(loop_scope="module")
async def disk(stage: Stage) -> AsyncIterator[tuple[dict[str, Any], str]]:
    """An iSCSI disk that both machines have; its server, and its path in them."""
    await storage(stage, "iscsi", "data", "--size", "16Mi")
    [server] = json.loads(await storage(stage, "list", "-o", "json"))
    for node in (ONE, TWO):
        await inside(stage, server["commands"].get("prepare", "true"), node)
        discovery, _, rest = server["commands"]["connect"].partition(" && ")
        quick = "iscsiadm -m node -o update -n node.session.timeo.replacement_timeout -v 2"
        await inside(stage, f"{discovery} && {quick} && {rest}", node)
    path = f"/dev/disk/by-path/ip-{server['address']}:3260-iscsi-{server['target']}-lun-1"
    yield server, path
    for node in (ONE, TWO):
        await stage.run_in(node, "touch /run/enough; iscsiadm -m node --logout")
    await stage.until("it is disconnected", lambda: unused(stage))
    await storage(stage, "remove", "data", "--delete-data")


async def unused(stage: Stage) -> bool:
    [server] = json.loads(await storage(stage, "list", "-o", "json"))
    return not server["connected"]


def medium_of(stage: Stage) -> bytes:
    """What the first block of the server's disk is."""
    [file] = sorted((stage.layout.root / "storage" / "data" / "disks").iterdir())
    with file.open("rb") as disk:
        return disk.read(512)


async def changes(stage: Stage) -> bool:
    before = medium_of(stage)
    await asyncio.sleep(1)
    return medium_of(stage) != before


@soak
async def test_what_is_shut_out_of_an_iscsi_target_writes_nothing_any_more(
    stage: Stage, disk: tuple[dict[str, Any], str]
) -> None:
    server, path = disk
    await inside(stage, WRITES.format(path), ONE)
    assert await changes(stage)
    _, address = await link_of(stage, ONE)
    target = Target(ONE, "uid", "boot", addresses=(address,), initiators=(f"iqn.2026-01.dev.mooring:{ONE}",))
    pods = f"{address.rsplit('.', 1)[0]}.0/24"
    given = {"target": server["target"], "socket": tgt_socket(stage), "networks": pods}
    order = Order(target, "token-1", given, deadline=20)
    answer = await IscsiTgt().fence(order)
    assert answer.outcome is Outcome.FENCED, answer
    assert not await changes(stage)
    await inside(stage, f"dd if=/dev/zero of={path} bs=512 count=1 oflag=direct conv=notrunc", TWO)
    await asyncio.sleep(3)
    assert (await IscsiTgt().look(order)).state is State.SHUT
    assert (await IscsiTgt().unfence(order)).outcome is Outcome.UNFENCED


def tgt_socket(stage: Stage) -> str:
    """tgtd's control socket, by its own environment."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if (entry / "comm").read_text().strip() != "tgtd":
                continue
            words = dict(each.partition("=")[::2] for each in (entry / "environ").read_text().split("\0"))
            if os.readlink(entry / "cwd").startswith(str(stage.layout.root)):
                return words["TGT_IPC_SOCKET"]
        except OSError:
            continue
    raise AssertionError("no tgtd of the cluster runs")


@soak
async def test_a_machine_whose_registration_was_taken_away_writes_nothing_until_it_registers_again(
    stage: Stage, disk: tuple[dict[str, Any], str]
) -> None:
    _, path = disk
    for node, key in ((ONE, "0xa1"), (TWO, "0xb2")):
        await inside(stage, f"sg_persist --out --register-ignore --param-sark={key} {path}", node)
    await inside(stage, f"sg_persist --out --reserve --param-rk=0xa1 --prout-type=5 {path}", ONE)
    await inside(stage, WRITES.format(path), ONE)
    assert await changes(stage)
    mechanism = ScsiPr(In(stage, TWO))
    order = Order(Target(ONE, "uid", "boot"), "token-1", {"devices": path, "keys": "0xa1"}, deadline=30)
    answer = await mechanism.fence(order)
    assert (answer.outcome, answer.code) == (Outcome.UNKNOWN, "PreemptedOnly")  # tgt aborts no commands
    assert not await changes(stage)
    assert (await mechanism.look(order)).state is State.SHUT
    await inside(stage, f"sg_persist --out --register-ignore --param-sark=0xa1 {path}", ONE)
    assert await changes(stage)  # which is why it is unknown
    assert (await mechanism.look(order)).state is State.OPEN
    assert (await mechanism.fence(order)).outcome is Outcome.UNKNOWN
    assert not await changes(stage)
    assert (await mechanism.unfence(order)).outcome is Outcome.UNFENCED
    await stage.run_in(TWO, f"sg_persist --out --clear --param-rk=0xb2 {path}")


@contextlib.asynccontextmanager
async def appending(stage: Stage) -> AsyncIterator[Callable[[], Awaitable[bool]]]:
    """The first machine appends to a file on an export of the second one all the time; whether that grows,
    looked at where it is served."""
    (_, client), (_, server) = await link_of(stage, ONE), await link_of(stage, TWO)
    serve = shlex.join(command("guest.nfs_server", "serve", "/srv/played", f"{client}/32,{server}/32"))
    prepare = (
        f"mkdir -p /srv/played && mount -t tmpfs none /srv/played && nohup {serve} > /run/nfs.log 2>&1 &"
    )
    await inside(stage, f"mountpoint -q /srv/played || {{ {prepare} }}", TWO)
    mount = f"mkdir -p /mnt/n && mount -t nfs4 -o vers=4.2 {server}:/ /mnt/n"
    await stage.until("it serves", lambda: works(stage, mount))
    await inside(stage, running(APPENDS), ONE)

    async def grows() -> bool:
        before = await inside(stage, "wc -c < /srv/played/export/file", TWO)
        await asyncio.sleep(1)
        return await inside(stage, "wc -c < /srv/played/export/file", TWO) != before

    await stage.until("it writes", lambda: works(stage, "test -s /mnt/n/file"))
    assert await grows()
    try:
        yield grows
    finally:
        await stage.run_in(ONE, "umount -l /mnt/n")


@soak
async def test_what_is_shut_out_of_an_export_writes_nothing_any_more(stage: Stage) -> None:
    async with appending(stage) as grows:
        _, client = await link_of(stage, ONE)
        target = Target(ONE, "uid", "boot", addresses=(client,))
        mechanism = NfsExport(In(stage, TWO))
        order = Order(target, "t", {"export": "/srv/played/export"}, deadline=20)
        assert (await mechanism.look(order)).state is State.OPEN
        answer = await mechanism.fence(order)
        assert answer.outcome is Outcome.FENCED, answer
        assert int(answer.evidence["expiredClients"]) >= 1
        assert not await grows()
        assert (await mechanism.look(order)).state is State.SHUT
        options = "rw,sync,no_subtree_check,no_root_squash,fsid=0"
        again = replace(order, parameters={**order.parameters, "options": options})
        assert (await mechanism.unfence(again)).outcome is Outcome.UNFENCED


async def works(stage: Stage, script: str) -> bool:
    return (await stage.run_in(ONE, script))[0] == 0
