"""A storage server's record: what is written is read again, and what is none is refused."""

from __future__ import annotations

import json
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.cluster.storage import record
from mooring.cluster.storage.record import Damaged, Kind, Server

NODES = st.frozensets(st.from_regex(r"[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?", fullmatch=True), max_size=5)
SERVERS = st.builds(
    Server,
    st.sampled_from(Kind),
    st.from_regex(r"[a-z]([a-z0-9-]{0,30}[a-z0-9])?", fullmatch=True),
    st.integers(4096, (1 << 40) // 4096).map(lambda blocks: blocks * 4096),
    st.integers(1, 16),
    st.ip_addresses(v=4),
    NODES,
    st.booleans(),
)
DATA = Server(Kind.ISCSI, "data", 1 << 30, 2, IPv4Address("10.88.0.2"), frozenset({"node-1"}))


@given(SERVERS)
def test_a_record_is_read_as_it_was_written(server: Server) -> None:
    assert record.parse(record.to_json(server)) == server


@given(st.text() | st.recursive(st.none() | st.text(), st.lists).map(repr))
def test_any_text_is_a_record_or_damaged(text: str) -> None:
    for parse in (record.parse, record.parse_clients):
        try:
            parse(text)
        except Damaged:
            continue


@given(st.sampled_from(["kind", "name", "size", "disks", "address", "shutOut"]), st.data())
def test_a_record_with_a_word_that_is_none_is_damaged(word: str, data: st.DataObject) -> None:
    said = json.loads(record.to_json(DATA))
    said[word] = data.draw(
        st.none() | st.booleans() | st.lists(st.integers(), min_size=1) | st.just("../x y")
    )
    with pytest.raises(Damaged):
        record.parse(json.dumps(said))


def test_a_record_that_is_too_long_or_too_deep_is_damaged() -> None:
    for text in ("{" + " " * record.LONGEST_RECORD + "}", "[" * 60000):
        with pytest.raises(Damaged):
            record.parse(text)


@pytest.mark.parametrize("said", ["", "1a", "a_", "A", "a-", "a" * 33, "a/b", "a\n", "ä", None, 3])
def test_a_name_that_cannot_be_in_paths_and_addresses_is_refused(said: object) -> None:
    with pytest.raises(ValueError, match="a server's name has"):
        record.name(said)


@pytest.mark.parametrize("said", ["", "1", "15Mi", "2Ti", "-1Gi", "1e400", "x", "nan", 1 << 30, None])
def test_a_size_that_is_none_or_out_of_bounds_is_refused(said: object) -> None:
    with pytest.raises(ValueError, match="16Mi to 1Ti"):
        record.size(said)


@pytest.mark.parametrize("said", [0, 17, 1.5, True, "1", None, float("nan")])
def test_a_number_of_disks_that_is_none_or_out_of_bounds_is_refused(said: object) -> None:
    with pytest.raises(ValueError, match="1 to 16"):
        record.disks(said)


def test_a_size_is_whole_blocks() -> None:
    assert record.size("20000001") == 20000001 // 4096 * 4096


def test_who_may_use_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    clients = {"node-1": IPv4Network("10.88.1.0/24")}
    record.save_clients(tmp_path, clients)
    assert record.load_clients(tmp_path) == clients


def test_a_damaged_record_names_its_file(tmp_path: Path) -> None:
    (tmp_path / "server.json").write_bytes(b"\xff{")
    with pytest.raises(Damaged, match=str(tmp_path / "server.json")):
        record.load(tmp_path)


@given(SERVERS)
def test_every_server_says_how_it_is_used(server: Server) -> None:
    for command in record.how_to_use(server).values():
        assert "\n" not in command
    assert str(server.address) in record.how_to_use(server)["connect"]
