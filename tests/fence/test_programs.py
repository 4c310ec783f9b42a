"""Programs of others: bounded, given what they need by stdin, and ended whole."""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from pathlib import Path

import pytest

from mooring.fence import programs

DAEMON = "setsid sh -c 'echo $$ > {0}; exec sleep 300' & while ! test -s {0}; do :; done; "
"""Leaves a helper in a session of its own, with the outputs open."""


def alive(file: Path) -> bool:
    """Whether the process runs; a zombie does not, nor one that is just being taken away."""
    try:
        stat = Path("/proc", file.read_text().strip(), "stat").read_text()
        return stat.rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def sh(script: str, deadline: float = 10, given: bytes = b"") -> programs.Ended:
    return await programs.run(["sh", "-c", script], deadline=deadline, given=given)


async def test_it_gets_its_input_and_tells_status_and_both_outputs():
    ended = await sh("cat; echo wrong >&2; exit 3", given=b"a=b\n")
    assert (ended.status, ended.output, ended.errors) == (3, "a=b\n", "wrong\n")


async def test_one_that_reads_nothing_and_one_that_says_too_much_end_all_the_same():
    ended = await sh("head -c 5000000 /dev/zero", given=b"x" * 5_000_000)
    assert (ended.status, len(ended.output)) == (0, programs.OUTPUT_BYTES)


async def test_at_the_deadline_nothing_of_it_is_left(tmp_path: Path):
    file = tmp_path / "pid"
    ended = await sh(DAEMON.format(file) + "sleep 300", deadline=1)
    assert (ended.status, ended.left) == (None, ())
    assert not alive(file)


async def test_when_the_time_is_over_nothing_is_started(monkeypatch: pytest.MonkeyPatch):
    async def start(*words: object, **_: object) -> None:
        raise AssertionError(f"started: {words}")

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start)
    assert (await sh("exit 0", deadline=0)).status is None


def test_an_order_has_no_time_left_when_its_machine_has_slept(monkeypatch: pytest.MonkeyPatch):
    slept, read = 0.0, time.clock_gettime

    def clock(which: int) -> float:
        return read(which) + (slept if which == time.CLOCK_BOOTTIME else 0.0)

    monkeypatch.setattr(time, "clock_gettime", clock)
    deadline = programs.Deadline(60)
    slept = 3600.0
    assert deadline.left() == 0


async def test_a_helper_that_it_leaves_is_ended_and_its_status_is_told(tmp_path: Path):
    file = tmp_path / "pid"
    ended = await sh(DAEMON.format(file) + "exit 2", deadline=60)
    assert ended.status == 2
    assert not alive(file)


async def test_when_it_is_cancelled_nothing_of_it_is_left(tmp_path: Path):
    file = tmp_path / "pid"
    task = asyncio.create_task(sh(DAEMON.format(file) + "sleep 300", deadline=300))
    while not (file.exists() and file.read_text()):  # noqa: ASYNC110 - nothing tells it
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not alive(file)


@pytest.mark.parametrize("steps", range(1, 12))
async def test_when_it_is_cancelled_while_it_is_being_started_nothing_of_it_is_left(
    tmp_path: Path, steps: int
):
    file = tmp_path / "pid"
    task = asyncio.create_task(sh(DAEMON.format(file) + "sleep 300", deadline=300))
    for _ in range(steps):
        await asyncio.sleep(0)
    await written_while_this_loop_stands(file)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 20)
    assert not (file.exists() and alive(file))


async def test_one_that_is_cancelled_twice_is_ended_all_the_same(tmp_path: Path):
    file = tmp_path / "pid"
    task = asyncio.create_task(sh(DAEMON.format(file) + "sleep 300", deadline=300))
    await asyncio.sleep(0)
    for _ in range(2):
        task.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 20)
    await written_while_this_loop_stands(file)
    while file.exists() and alive(file):  # noqa: ASYNC110 - nothing tells it
        await asyncio.sleep(0.01)


async def test_one_that_becomes_another_program_all_the_time_is_ended(tmp_path: Path):
    file, script = tmp_path / "pid", tmp_path / "script"
    script.write_text(f"test -s {file} || echo $$ > {file}\nexec sh {script}\n")
    for _ in range(40):
        await sh(f"setsid sh {script} & while ! test -s {file}; do :; done")
        assert not alive(file)
        file.unlink()


async def written_while_this_loop_stands(file: Path) -> None:
    """Until the daemon runs, if it was started; nothing else of this loop goes on meanwhile."""
    until = time.monotonic() + 1
    while not (file.exists() and file.read_text()) and time.monotonic() < until:
        time.sleep(0.01)  # noqa: ASYNC251 - that is what it is for


async def test_it_gets_nothing_of_this_processs_environment(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
    monkeypatch.setenv("PYTHONPATH", "/odd")
    assert "hush" not in (said := (await sh("env")).output) and "/odd" not in said


async def test_a_program_that_is_not_there_or_none_is_said():
    with pytest.raises(programs.ProgramMissing, match="mooring-none is not installed"):
        await programs.run(["mooring-none"], deadline=1)
    assert programs.missing({"mooring-none": "some-package", "sh": "dash"}) == [
        "mooring-none is not installed: apt-get install some-package"
    ]


async def test_a_hidden_file_is_read_by_what_is_started_and_is_on_no_disk():
    secret = secrets.token_hex(20)
    with programs.Hidden(secret) as file:
        assert (await sh(f"cat {file.path}")).output == secret
        assert "memfd:" in os.readlink(file.path)
        path = file.path
    assert not os.path.exists(path)


async def test_a_deadline_keeps_time_back_for_the_ending():
    assert 9 < programs.Deadline(10).left() <= 9.5
    assert programs.Deadline(0).left() == 0
    assert not await programs.Deadline(1).pause(5)


def stat(state: str = "R", *, flags: int = 0, code: int = 1, environment: tuple[int, int] = (9, 9)) -> str:
    """As proc_pid_stat(5) has it: fields 3 state, 9 flags, 26 startcode, 50 env_start, 51 env_end."""
    fields = ["0"] * 52
    fields[2], fields[8], fields[25] = state, str(flags), str(code)
    fields[49], fields[50] = map(str, environment)
    return " ".join(["7", "(a name) )", *fields[2:]])


@pytest.mark.parametrize(
    "line, in_passing",
    [
        pytest.param(stat(), False, id="its environment is an empty one"),
        pytest.param(stat(code=0), True, id="it is being loaded"),
        pytest.param(stat(environment=(0, 0), code=0), True, id="it has no memory"),
        pytest.param(stat(environment=(4, 9)), True, id="it has one by now"),
        pytest.param(stat("Z", environment=(0, 0)), False, id="a zombie"),
        pytest.param(stat("S", flags=0x00200000, environment=(0, 0)), False, id="a thread of the kernel"),
    ],
)
def test_without_an_environment_it_is_waited_for_while_it_may_be_one_of_them(line: str, in_passing: bool):
    assert programs.is_in_passing(line) is in_passing
