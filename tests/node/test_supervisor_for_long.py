"""A supervisor lives as long as its pod, for months: what it opens it closes, and a full disk does not end
it."""

from __future__ import annotations

import errno
import os
import resource
import socket
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mooring.node.supervisor import complaints, container
from mooring.node.supervisor.container import Container, new_record
from mooring.node.supervisor.descriptors import accepted
from mooring.node.supervisor.exec import Command, ExecServer
from mooring.node.supervisor.logs import Log
from mooring.node.supervisor.main import Supervisor


def full(*_: object) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def request() -> Any:
    return {"name": "main", "attempt": 0}


@contextmanager
def standard_error_to(path: Path) -> Generator[None]:
    """As in a supervisor."""
    kept, opened = os.dup(2), os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    os.dup2(opened, 2)
    os.close(opened)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def test_a_full_disk_ends_no_supervisor_whose_own_log_is_on_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log(str(tmp_path), "main", 0)
    with monkeypatch.context() as disk:
        disk.setattr(os, "write", full)
        log.write(b"lost\n")
    log.write(b"kept\n")
    log.close()
    assert (tmp_path / "main.0.log").read_bytes() == b"kept\n"


def test_a_log_that_cannot_be_made_anew_writes_into_no_file_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number of its closed descriptor is the next one's that is opened."""
    log = Log(str(tmp_path), "main", 0, limit=10)
    log.write(b"123456789\n")
    with monkeypatch.context() as disk:
        disk.setattr(os, "open", full)
        log.write(b"lost\n")
    with (tmp_path / "another").open("wb", buffering=0):
        log.write(b"kept\n")
    log.close()
    assert (tmp_path / "another").read_bytes() == b""
    assert (tmp_path / "main.0.log").read_bytes() == b"kept\n"
    assert (tmp_path / "main.0.log.1").read_bytes() == b"123456789\n"


def test_complaints_fill_no_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(complaints, "LONGEST", 1000)
    supervisor_log = tmp_path / "supervisor.log"
    with standard_error_to(supervisor_log):
        for number in range(100):
            complaints.complain(f"log lines lost: {number}")
    assert supervisor_log.stat().st_size <= 1000
    assert supervisor_log.read_text().endswith("log lines lost: 99\n")


def log_in(place: Path, _: str, name: str, attempt: int) -> Log:
    return Log(str(place), name, attempt)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("step", ["_new_message", "fork"])
def test_a_container_that_cannot_be_made_leaves_nothing_open(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container, "Log", partial(log_in, tmp_path))
    monkeypatch.setattr(container, "_new_message", str)
    monkeypatch.setattr(container if step == "_new_message" else os, step, full)
    before = descriptors()
    for _ in range(20):
        with pytest.raises(OSError):
            Container(request(), new_record(request(), 0, None), "", [])
    assert descriptors() == before


def test_a_command_that_cannot_be_made_leaves_nothing_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fork", full)
    client, other = socket.socketpair()
    before = descriptors()
    for _ in range(20):
        with pytest.raises(OSError):
            Command(client, None, request(), [])  # type: ignore[arg-type]
    assert descriptors() == before
    client.close()
    other.close()


@contextmanager
def no_descriptor_left() -> Generator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize("server", [Supervisor, ExecServer])
def test_a_client_that_cannot_be_taken_ends_no_supervisor_and_waits(server: Any, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as other:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        other.connect(str(tmp_path / "s"))
        with no_descriptor_left():
            server._accept(object.__new__(server), listener)
        client = accepted(listener)
        assert client is not None
        client.close()
