"""The words of `mooring node …` reach the cluster, and errors come back as sentences."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.cluster.control import Words, parse, say, serving
from mooring.cluster.layout import ClusterError


async def obey(command: str, node: str, options: Mapping[str, Any]) -> str:
    if command == "break":
        raise RuntimeError("out of order")
    if node != "node-1":
        raise ClusterError(f"no node {node!r} here")
    return f"{command} {node}: done" + "".join(f" {name}={value}" for name, value in options.items())


async def test_a_command_is_answered(tmp_path: Path) -> None:
    async with serving(tmp_path / "control.sock", obey):
        assert await say(tmp_path / "control.sock", "stop", "node-1") == "stop node-1: done"


async def test_options_reach_the_cluster_as_they_were_said(tmp_path: Path) -> None:
    async with serving(tmp_path / "control.sock", obey):
        answer = await say(tmp_path / "control.sock", "cut", "node-1", {"far": "api", "loss": 0.5})
    assert answer == "cut node-1: done far=api loss=0.5"


async def test_a_refusal_reaches_the_user(tmp_path: Path) -> None:
    async with serving(tmp_path / "control.sock", obey):
        with pytest.raises(ClusterError, match="no node 'x' here"):
            await say(tmp_path / "control.sock", "stop", "x")


async def test_a_failure_reaches_the_user_and_the_server_goes_on(tmp_path: Path) -> None:
    async with serving(tmp_path / "control.sock", obey):
        with pytest.raises(ClusterError, match="out of order"):
            await say(tmp_path / "control.sock", "break", "node-1")
        assert await say(tmp_path / "control.sock", "start", "node-1")


async def test_nonsense_is_refused_and_the_server_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "control.sock"
    async with serving(path, obey):
        reader, writer = await asyncio.open_unix_connection(str(path))
        writer.write(b"nonsense\n")
        assert b"error" in await reader.readline()
        writer.close()
        assert await say(path, "start", "node-1")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[]", "one line with a JSON object"),
        ("[" * 50_000, "one line with a JSON object"),
        ('{"command": "stop"}', "the words `command` and `node`"),
        ('{"command": "stop", "node": 1}', "the words `command` and `node`"),
        (json.dumps({"command": "stop", "node": "n" * 254}), "the words `command` and `node`"),
        ('{"command": "cut", "node": "n", "options": []}', "an object of at most 16"),
        (
            json.dumps({"command": "cut", "node": "n", "options": dict.fromkeys(map(str, range(17)))}),
            "at most 16",
        ),
        ('{"command": "cut", "node": "n", "options": {"far": ["api"]}}', "'far' is not"),
        (json.dumps({"command": "cut", "node": "n", "options": {"far": "a" * 8193}}), "'far' is not"),
    ],
)
def test_what_is_no_command_is_refused_in_a_sentence(line: str, message: str) -> None:
    with pytest.raises(ClusterError) as error:
        parse(line.encode())
    assert message in str(error.value)
    assert len(str(error.value)) < 500


async def test_a_line_without_an_end_is_refused_and_the_server_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "control.sock"
    async with serving(path, obey):
        reader, writer = await asyncio.open_unix_connection(str(path))
        with contextlib.suppress(ConnectionError):
            writer.write(b'{"command": "' + b"a" * 300_000)
            await writer.drain()
            assert b"error" in await reader.readline()
        writer.close()
        assert await say(path, "start", "node-1")


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text()),
    lambda below: st.one_of(st.lists(below), st.dictionaries(st.text(), below)),
    max_leaves=8,
)
near_commands = st.fixed_dictionaries(
    {}, optional={"command": json_values, "node": json_values, "options": json_values}
)


@given(st.one_of(st.binary(), near_commands.map(lambda said: json.dumps(said).encode())))
def test_any_line_is_a_command_or_refused(line: bytes) -> None:
    with contextlib.suppress(ClusterError):
        words = parse(line)
        assert isinstance(words, Words)
        assert len(words.options) <= 16
        assert all(value is None or isinstance(value, str | int | float) for value in words.options.values())


async def test_a_path_longer_than_a_socket_address_works(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    deep.mkdir(parents=True)
    async with serving(deep / "control.sock", obey):
        assert await say(deep / "control.sock", "stop", "node-1")


async def test_without_a_cluster_the_next_step_is_named(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="start it with `mooring up`"):
        await say(tmp_path / "control.sock", "stop", "node-1")


async def test_the_socket_is_private_and_goes_with_the_server(tmp_path: Path) -> None:
    path = tmp_path / "control.sock"
    async with serving(path, obey):
        assert path.stat().st_mode & 0o777 == 0o600
    assert not path.exists()
