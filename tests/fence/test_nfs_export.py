"""Exports of NFS: what exportfs and the kernel print, and what a fence makes of it, with a played server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.fence.interface import Order, Outcome, State, Target, Volume
from mooring.fence.programs import Ended
from mooring.fence.storage import nfsd_clients
from mooring.fence.storage.clients import client_of
from mooring.fence.storage.nfs_export import NfsExport
from mooring.fence.storage.nfsd_clients import CLIENTS, Known

INFO = (
    f'@ {CLIENTS}/3\nclientid: 0x1\naddress: "10.88.1.1:812"\nstatus: confirmed\nname: "a"\n'
    f'@ {CLIENTS}/4\naddress: "[fd00::2]:5"\n@ {CLIENTS}/5\naddress: "10.88.2.1:812"\n'
)
EXPORTS = "/srv/a  10.88.1.0/24(sync,wdelay,rw)\n/srv/a  10.88.2.1(rw)\n/srv/b  *(ro)\n"


@dataclass
class Server:
    """As its programs show it."""

    exports: list[str] = field(default_factory=lambda: ["10.88.1.0/24", "10.88.2.1"])
    versions: str = "-2 -3 +4 +4.1 +4.2"
    clients: str = INFO
    expired: list[str] = field(default_factory=list[str])
    expires: bool = True

    async def __call__(
        self,
        words: Sequence[str],
        *,
        deadline: float,
        given: bytes = b"",
        environ: Mapping[str, str] = {},
        keep: int = 0,
    ) -> Ended:
        match list(words):
            case ["exportfs", "-s"]:
                return Ended(0, "".join(f"/srv/a  {each}(rw)\n" for each in self.exports))
            case ["exportfs", "-u", which]:
                self.exports.remove(which.rpartition(":")[0])
            case ["exportfs", "-o", _, which]:
                self.exports.append(which.rpartition(":")[0])
            case ["cat", _]:
                return Ended(0, self.versions)
            case ["sh", "-c", script] if script == nfsd_clients.LIST:
                return Ended(0, self.clients)
            case ["sh", "-c", _, "sh", ctl]:
                self.expired.append(ctl)
                return Ended(0 if self.expires else 1)
            case _:
                pass
        return Ended(0)


TARGET = Target("n", "u", "b", addresses=("10.88.1.1",))
ORDER = Order(TARGET, "t", {"export": "/srv/a", "networks": "10.88.1.0/24"})


async def test_the_export_is_taken_back_and_the_state_of_that_client_is_ended():
    server = Server()
    answer = await NfsExport(server).fence(ORDER)
    assert (answer.outcome, answer.before) == (Outcome.FENCED, State.OPEN)
    assert (server.exports, server.expired) == (["10.88.2.1"], [f"{CLIENTS}/3/ctl"])
    assert (await NfsExport(server).fence(ORDER)).before is State.SHUT
    assert (await NfsExport(server).unfence(ORDER)).outcome is Outcome.UNFENCED
    assert "10.88.1.0/24" in server.exports


@pytest.mark.parametrize("wide", ["*", "10.88.0.0/16", "*.example.org", "@group", "gss/krb5"])
async def test_an_export_that_lets_it_in_with_others_is_left_as_it_is(wide: str):
    server = Server(exports=[wide, "10.88.1.0/24"])
    answer = await NfsExport(server).fence(ORDER)
    assert (answer.outcome, answer.code) == (Outcome.NOT_FENCED, "ExportTooWide")
    assert (server.exports, server.expired) == ([wide, "10.88.1.0/24"], [])


async def test_a_server_of_version_3_or_one_that_does_not_end_the_state_is_unknown():
    assert (await NfsExport(Server(versions="+3 +4")).fence(ORDER)).code == "Version3"
    answer = await NfsExport(Server(expires=False)).fence(ORDER)
    assert answer.outcome is Outcome.UNKNOWN


async def test_a_client_of_unknown_address_is_ended_too():
    server = Server(clients=f"@ {CLIENTS}/9\nname: x\n")
    assert (await NfsExport(server).fence(ORDER)).outcome is Outcome.FENCED
    assert server.expired == [f"{CLIENTS}/9/ctl"]


@pytest.mark.parametrize(
    ("bad", "wrong"),
    [
        (replace(ORDER, parameters={}), "export is missing"),
        (replace(ORDER, parameters={"export": "srv"}), "is no path"),
        (replace(ORDER, parameters={"export": "/a", "options": "rw;id"}), "no options"),
        (
            Order(Target("n", "u", "b", initiators=("iqn",)), "t", {"export": "/srv/a"}),
            "no address of n is known",
        ),
        (replace(ORDER, target=replace(TARGET, volumes=(Volume("/srv/b"),))), "/srv/b is not of /srv/a"),
    ],
)
def test_bad_input_is_said(bad: Order, wrong: str):
    assert any(wrong in each for each in NfsExport().problems(bad)), NfsExport().problems(bad)


def test_what_is_printed_is_understood():
    assert nfsd_clients.exported(EXPORTS, "/srv/a") == ["10.88.1.0/24", "10.88.2.1"]
    assert nfsd_clients.exported(EXPORTS, "/srv/b") == ["*"]
    assert nfsd_clients.known(INFO) == [
        Known(f"{CLIENTS}/3", "10.88.1.1"),
        Known(f"{CLIENTS}/4", "fd00::2"),
        Known(f"{CLIENTS}/5", "10.88.2.1"),
    ]


@given(st.text() | st.lists(st.sampled_from([*INFO.splitlines(), *EXPORTS.splitlines()])).map("\n".join))
def test_any_text_is_understood_as_far_as_it_goes(text: str):
    client = client_of(ORDER)
    for each in nfsd_clients.theirs(nfsd_clients.known(text), client):
        assert each.directory.startswith(CLIENTS)
    nfsd_clients.lets_in(nfsd_clients.exported(text, "/srv/a"), client)
