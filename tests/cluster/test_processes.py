"""Processes are known by pid and start time, and ended exactly."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mooring.cluster import heartbeat, processes
from mooring.cluster.processes import Part, Running, end, kill, load, save

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]
STUBBORN = [
    sys.executable,
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)",
]


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(SLEEP) as process:
        yield process
        process.kill()


def test_a_process_is_alive_until_it_ends(sleeper: subprocess.Popen[bytes]) -> None:
    running = Running.of(sleeper.pid)
    assert running is not None
    assert running.alive
    sleeper.kill()
    sleeper.wait()
    assert not running.alive


def test_a_zombie_does_not_run(sleeper: subprocess.Popen[bytes]) -> None:
    running = Running.of(sleeper.pid)
    assert running is not None
    os.kill(sleeper.pid, signal.SIGKILL)
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    assert not running.alive


def test_a_pid_with_another_start_time_is_not_signalled(sleeper: subprocess.Popen[bytes]) -> None:
    running = Running.of(sleeper.pid)
    assert running is not None
    Running(running.pid, running.start_time + 1).send(signal.SIGKILL)
    assert running.alive


def test_a_record_of_another_boot_loads_as_nothing(tmp_path: Path) -> None:
    """Another process may have its pid, and have been started as long after its boot."""
    us, record = Running.of(os.getpid()), tmp_path / "part.json"
    assert us is not None
    save(record, us)
    assert load(record) == us
    record.write_text(json.dumps(json.loads(record.read_text()) | {"bootID": "before"}))
    assert load(record) is None


def test_a_record_of_a_process_that_has_ended_loads_as_nothing(tmp_path: Path) -> None:
    record = tmp_path / "part.json"
    save(record, Running(os.getpid(), 1))
    assert load(record) is None


@pytest.mark.parametrize("content", ["", "{", "[]", '{"pid": "x"}'])
def test_a_damaged_record_loads_as_nothing(tmp_path: Path, content: str) -> None:
    record = tmp_path / "part.json"
    record.write_text(content)
    assert load(record) is None


def test_a_record_of_a_running_process_loads(tmp_path: Path) -> None:
    me = Running.of(os.getpid())
    assert me is not None
    save(tmp_path / "me.json", me)
    assert load(tmp_path / "me.json") == me


def test_what_ignores_sigterm_is_killed_after_its_grace() -> None:
    with subprocess.Popen(STUBBORN, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        running = Running.of(process.pid)
        assert running is not None
        end(running, grace=0.1)
        assert process.wait() == -signal.SIGKILL


def test_a_process_that_has_only_the_number_of_one_that_is_gone_is_not_killed() -> None:
    with subprocess.Popen(STUBBORN, stdout=subprocess.PIPE) as another:
        assert another.stdout is not None
        another.stdout.readline()
        kill(Running(another.pid, 1))
        assert another.poll() is None
        another.kill()


async def test_a_part_that_dies_is_started_again(tmp_path: Path) -> None:
    part = Part("p", SLEEP, run=tmp_path, logs=tmp_path)
    await part.start()
    first = part.running
    assert first is not None
    first.send(signal.SIGKILL)
    while part.restarts == 0 or part.running is None:  # noqa: ASYNC110 — a process, not an event of ours
        await asyncio.sleep(0.01)
    assert part.running.pid != first.pid
    assert load(tmp_path / "p.json") == part.running
    await part.stop()
    assert part.running is None
    assert not (tmp_path / "p.json").exists()


async def test_a_log_that_has_grown_begins_anew_while_its_part_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "LARGEST_LOG", 1000)
    monkeypatch.setattr(processes, "LOOK_AT_LOG_S", 0.01)
    code = "import time\nwhile True: print('x' * 99, flush=True); time.sleep(0.001)"
    part = Part("p", [sys.executable, "-c", code], run=tmp_path, logs=tmp_path)
    log, older = tmp_path / "p.log", tmp_path / "p.log.1"
    await part.start()
    while not older.exists():  # noqa: ASYNC110 — a process, not an event of ours
        await asyncio.sleep(0.01)
    emptied = log.stat().st_size
    while log.stat().st_size == emptied:  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    await part.stop()
    assert part.restarts == 0
    assert log.read_bytes().lstrip(b"x\n") == b""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p.log", "p.log.1"]


async def test_a_part_that_cannot_be_started_again_is_tried_again(tmp_path: Path) -> None:
    """The disk is full, or the host has no memory left for a process."""
    (run := tmp_path / "run").mkdir()
    part = Part("p", SLEEP, run=run, logs=tmp_path)
    await part.start()
    first = part.running
    assert first is not None
    run.rename(tmp_path / "away")
    first.send(signal.SIGKILL)
    while part.restarts < 2:  # noqa: ASYNC110 — a process, not an event of ours
        await asyncio.sleep(0.01)
    (tmp_path / "away").rename(run)
    while not (part.running and load(run / "p.json") == part.running):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    await part.stop()
    assert part.running is None


async def test_a_process_that_cannot_be_written_down_is_ended(tmp_path: Path) -> None:
    """Nothing else would end it: neither `mooring down` nor the next `mooring up` knows of it."""
    part = Part("p", SLEEP, run=tmp_path / "not there", logs=tmp_path)
    with pytest.raises(FileNotFoundError):
        await part.start()
    assert part.running is None


async def test_a_part_that_is_stopped_while_it_is_started_again_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = Part("p", SLEEP, run=tmp_path, logs=tmp_path)
    await part.start()
    first, spawn = part.running, asyncio.create_subprocess_exec
    assert first is not None
    begun, go = asyncio.Event(), asyncio.Event()

    async def slow(*argv: str, **how: Any) -> asyncio.subprocess.Process:
        begun.set()
        await go.wait()
        return await spawn(*argv, **how)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", slow)
    first.send(signal.SIGKILL)
    await begun.wait()
    stopping = asyncio.create_task(part.stop())
    await asyncio.sleep(0)
    go.set()
    async with asyncio.timeout(30):
        await stopping
    assert part.running is None


async def test_a_part_that_is_not_to_be_restarted_tells_when_it_has_ended(tmp_path: Path) -> None:
    part = Part("p", [sys.executable, "-c", "print('said')"], run=tmp_path, logs=tmp_path)
    await part.start(restart=False)
    await part.ended.wait()
    assert part.restarts == 0
    assert (tmp_path / "p.log").read_text() == "said\n"


BEATS = """
import asyncio, os, sys, time
from mooring.cluster import heartbeat

async def main():
    heartbeat.beat(os.environ)
    await asyncio.sleep(0.2)
    if sys.argv[1] == "hangs":
        time.sleep(60)
    await asyncio.sleep(60)

asyncio.run(main())
"""


@pytest.mark.parametrize(("how", "restarted"), [("hangs", True), ("lives", False)])
async def test_a_part_that_lives_and_does_nothing_is_started_again(
    tmp_path: Path, how: str, restarted: bool
) -> None:
    part = Part("p", [sys.executable, "-c", BEATS, how], run=tmp_path, logs=tmp_path, patience=3.0)
    await part.start()
    try:
        for _ in range(100 if restarted else 60):
            await asyncio.sleep(0.1)
            if part.restarts:
                break
        assert bool(part.restarts) is restarted
    finally:
        await part.stop(grace=0.1)


async def test_who_stood_still_with_all_its_parts_calls_none_silent_before_it_has_listened_anew() -> None:
    silent = asyncio.Event()
    listener = heartbeat.Listener(silent.set, patience=0.1)
    try:
        os.write(listener.writer, b".")
        await asyncio.sleep(0.01)
        time.sleep(heartbeat.BEAT_S + 0.2)  # noqa: ASYNC251 - the event loop is what stands still
        await asyncio.sleep(0.02)
        assert not silent.is_set()
        await asyncio.wait_for(silent.wait(), 30)
    finally:
        listener.started()
        listener.close()


async def test_a_program_without_a_heartbeat_is_left_alone(tmp_path: Path) -> None:
    part = Part("p", SLEEP, run=tmp_path, logs=tmp_path, patience=0.1)
    await part.start()
    await asyncio.sleep(1)
    assert part.restarts == 0
    await part.stop(grace=0.1)
