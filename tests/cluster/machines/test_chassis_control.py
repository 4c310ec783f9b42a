"""What ipmi_sim runs: its words, the door's, and anything else."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.cluster.machines.bmc import chassis_control


@contextmanager
def door(path: Path, reply: bytes) -> Iterator[list[str]]:
    """Answers every line with `reply`; gives the lines."""
    lines: list[str] = []
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection, connection.makefile("rw") as file:
                lines.append(file.readline().strip())
                connection.sendall(reply)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield lines
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def run(path: Path, *command: str) -> tuple[int, str]:
    """As ipmi_sim runs it, by the script that it is given."""
    words = [sys.executable, "-I", "-S", chassis_control.__file__, str(path), "node-1", *command]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


@pytest.mark.parametrize(
    ("command", "line", "reply", "printed"),
    [
        ("get power", "bmc node-1 power", b"ok on\n", "power:1\n"),
        ("get power", "bmc node-1 power", b"ok off\n", "power:0\n"),
        ("set power 0", "bmc node-1 off", b"ok done\n", "\n"),
        ("set power 1", "bmc node-1 on", b"ok done\n", "\n"),
        ("set reset 1", "bmc node-1 reset", b"ok done\n", "\n"),
        ("set shutdown 1", "bmc node-1 button", b"ok done\n", "\n"),
    ],
)
def test_a_command_is_asked_at_the_door(data_dir: Path, command: str, line: str, reply: bytes, printed: str):
    with door(data_dir / "s", reply) as lines:
        assert run(data_dir / "s", *command.split()) == (0, printed)
    assert lines == [line]


@pytest.mark.parametrize(
    ("command", "reply"),
    [
        ("get power", b"ok done\n"),
        ("get power", b"ok\n"),
        ("get power", b"error no\n"),
        ("get power", b""),
        ("get power", b"on\n"),
        ("set power 0", b"ok off\n"),
        ("set power 0", b"error no\n"),
        ("set power 0", b""),
        ("set power 0", b"\xff\xfe\n"),
    ],
)
def test_any_other_answer_of_the_door_is_a_failure(data_dir: Path, command: str, reply: bytes):
    with door(data_dir / "s", reply):
        status, printed = run(data_dir / "s", *command.split())
    assert status != 0
    assert "power:" not in printed


def test_without_a_door_every_command_fails(data_dir: Path):
    assert run(data_dir / "s", "get", "power")[0] != 0
    assert run(data_dir / "s", "set", "power", "0")[0] != 0


@pytest.mark.parametrize("command", ["get boot", "set boot pxe", "set identify 15 0"])
def test_what_the_machine_does_not_have_succeeds_and_asks_nothing(data_dir: Path, command: str):
    assert run(data_dir / "s", *command.split())[0] == 0


WORDS = st.sampled_from(
    ["get", "set", "check", "power", "reset", "shutdown", "0", "1", "2", "-1", ""]
) | st.text(max_size=9)


@given(st.lists(WORDS, max_size=6))
def test_words_that_are_no_command_ask_nothing_and_fail(words: list[str]):
    if tuple(words) in chassis_control.ASKED or (words[1:2] and words[1] in chassis_control.IGNORED):
        return
    assert chassis_control.main("/nowhere/door", "node-1", *words) == 1
