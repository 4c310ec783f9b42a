"""A data directory that lost something, or holds something else, is refused by the file's name; nothing is
changed."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from mooring.apiserver.data_directory import load_tokens
from mooring.apiserver.process import UNUSABLE, serve


@pytest.fixture
async def used(tmp_path: Path) -> Path:
    """The directory of a cluster that has run."""
    await (await serve(data_dir=tmp_path)).close()
    return tmp_path


def content(directory: Path) -> dict[str, bytes]:
    """Of all files but SQLite's own beside the store, which it may fill and empty."""
    return {
        path.name: path.read_bytes() for path in directory.iterdir() if not path.name.startswith("store.db-")
    }


def spoil(change: str) -> Callable[[Path], object]:
    """Changes the first row of the history."""

    def act(directory: Path) -> None:
        with closing(sqlite3.connect(directory / "store.db", isolation_level=None)) as db:
            db.execute(f"UPDATE history SET {change} WHERE version = 1")

    return act


def write(name: str, text: str) -> Callable[[Path], object]:
    return lambda directory: (directory / name).write_text(text)


OTHER_VERSION = """body = replace(CAST(body AS TEXT), '"resourceVersion":"1"', '"resourceVersion":"7"')"""
DAMAGES: dict[str, tuple[str, Callable[[Path], object]]] = {
    "an empty store": ("store.db", write("store.db", "")),
    "no store": ("store.db", lambda d: (d / "store.db").unlink()),
    "a store that is something else": ("store.db", write("store.db", "not a database " * 1000)),
    "a store that is cut off": ("store.db", lambda d: os.truncate(d / "store.db", 5000)),
    "a row that is no JSON": ("store.db", spoil("body = x'00ff'")),
    "a row that is no object": ("store.db", spoil("body = '[]'")),
    "a row without metadata": ("store.db", spoil("body = '{}'")),
    "a row of another version": ("store.db", spoil(OTHER_VERSION)),
    "a row that is a number": ("store.db", spoil("body = 5")),
    "a namespace that is no text": ("store.db", spoil("namespace = x'ff'")),
    "a row under another name": ("store.db", spoil("name = 'other'")),
    "tokens that are no JSON": ("tokens.json", write("tokens.json", "{")),
    "tokens that are no text": ("tokens.json", lambda d: (d / "tokens.json").write_bytes(b"\xff")),
    "tokens without a secret": ("tokens.json", write("tokens.json", "[]")),
    "a secret that is no hexadecimal number": ("tokens.json", write("tokens.json", '{"secret": "xy"}')),
    "a secret that is too short": ("tokens.json", write("tokens.json", '{"secret": ""}')),
    "nested tokens": ("tokens.json", write("tokens.json", "[" * 100_000)),
    "a damaged authority": ("ca.crt", write("ca.crt", "-----BEGIN CERTIFICATE-----\nx\n")),
    "an empty authority": ("ca.crt", write("ca.crt", "")),
    "a damaged certificate": ("server.crt", write("server.crt", "x")),
    "a damaged key": ("server.key", write("server.key", "x")),
}


@pytest.mark.parametrize("damage", DAMAGES)
async def test_what_is_damaged_is_named_and_left_as_it_is(used: Path, damage: str):
    name, act = DAMAGES[damage]
    act(used)
    before = content(used)
    with pytest.raises(UNUSABLE, match=name):
        await serve(data_dir=used)
    assert content(used) == before


async def test_a_start_that_was_interrupted_before_the_first_object_is_no_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    async def dies(self: object) -> None:
        raise ConnectionError

    with monkeypatch.context() as patched, pytest.raises(ConnectionError):
        patched.setattr("mooring.apiserver.server.Server.start", dies)
        await serve(data_dir=tmp_path)
    assert (tmp_path / "tokens.json").exists()
    await (await serve(data_dir=tmp_path)).close()


async def test_in_a_directory_that_is_open_to_others_every_secret_is_private(tmp_path: Path):
    """The directory was there before, with another mode."""
    directory = tmp_path / "data"
    directory.mkdir(mode=0o755)
    before = os.umask(0)
    try:
        running = await serve(data_dir=directory)
        await running.server.call("POST", "/api/v1/namespaces", body={"metadata": {"name": "n"}})
        modes = {path.name: path.stat().st_mode & 0o077 for path in directory.iterdir()}
        await running.close()
    finally:
        os.umask(before)
    assert {
        "store.db",
        "store.db-wal",
        "store.db-shm",
        "tokens.json",
        "server.key",
        "kubeconfig",
    } <= modes.keys()
    assert not any(modes.values()), modes


async def test_files_that_were_open_to_others_are_closed(used: Path):
    for name in ("store.db", "tokens.json"):
        (used / name).chmod(0o644)
    load_tokens(used)
    await (await serve(data_dir=used)).close()
    assert (used / "store.db").stat().st_mode & 0o077 == 0
    assert (used / "tokens.json").stat().st_mode & 0o077 == 0


async def test_a_directory_of_a_newer_version_is_refused_and_left_as_it_is(used: Path) -> None:
    (used / "schema.json").write_text('{"schema": 99}')
    before = content(used)
    with pytest.raises(UNUSABLE, match="newer version of Mooring"):
        await serve(data_dir=used)
    assert content(used) == before


async def test_one_of_before_there_were_numbers_gets_one(used: Path) -> None:
    (used / "schema.json").unlink()
    await (await serve(data_dir=used)).close()
    assert (used / "schema.json").read_text() == '{"schema": 1}\n'
