"""The program of an NFS server's machine: what it exports, and by what it knows its clients."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from mooring.cluster.machines.guest import nfs_server

INFO = """clientid: 0x6a1f5c0e6a1f5c0d
address: "10.88.1.1:815"
status: confirmed
name: "Linux NFSv4.2 node-1"
minor version: 2
"""


def test_it_exports_to_the_parts_of_the_addresses_that_are_let_in() -> None:
    parts = nfs_server.parse_parts("10.88.1.0/24,10.88.2.0/24")
    assert parts == [IPv4Network("10.88.1.0/24"), IPv4Network("10.88.2.0/24")]
    lines = nfs_server.exports(Path("/srv"), parts).splitlines()
    assert [line.split("(")[0] for line in lines] == ["/srv/export 10.88.1.0/24", "/srv/export 10.88.2.0/24"]
    assert nfs_server.exports(Path("/srv"), nfs_server.parse_parts("")) == ""


def test_a_client_is_known_by_its_address() -> None:
    assert nfs_server.address_of(INFO) == IPv4Address("10.88.1.1")


@given(st.text().map(lambda text: text.replace("\\", "").replace('"', "").replace("\n", "")))
def test_a_client_is_not_known_by_what_it_calls_itself(name: str) -> None:
    said = INFO.replace("Linux NFSv4.2 node-1", name + r"\"\naddress: \"10.88.2.1:1\"")
    assert nfs_server.address_of(said) == IPv4Address("10.88.1.1")


@given(st.text() | st.text(alphabet='addres: ".0123456789\n').map(lambda text: f'address: "{text}"'))
def test_any_text_has_an_address_or_none(text: str) -> None:
    found = nfs_server.address_of(text)
    assert found is None or str(found) in text
