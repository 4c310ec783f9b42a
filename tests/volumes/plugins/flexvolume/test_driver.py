"""A driver's calls end, whatever the driver does, and say what it did."""

from __future__ import annotations

import asyncio
import base64
import os
import signal
from pathlib import Path

import pytest
from tests.volumes.plugins.flexvolume.conftest import Write, calls

from mooring.volumes.plugins.flexvolume.driver import (
    Driver,
    DriverFailed,
    DriverLate,
    DriverMissing,
    initialised,
    without,
)

NAME = "example.com/disk"


def driver(executable: Path, timeout_s: float = 20.0) -> Driver:
    return Driver(NAME, executable, timeout_s=timeout_s)


async def test_a_call_has_its_arguments_and_returns_the_answer(write: Write) -> None:
    executable = write("""echo '{"status":"Success","device":"/dev/x"}'""")
    answer = await driver(executable).call("attach", '{"a":"b c"}', "node-1")
    assert answer is not None
    assert answer.device == "/dev/x"
    assert calls(executable) == [["attach", '{"a":"b c"}', "node-1"]]


async def test_init_gives_the_capabilities(write: Write) -> None:
    executable = write("""echo '{"status":"Success","capabilities":{"attach":false}}'""")
    assert not (await initialised(NAME, executable)).capabilities.attach


async def test_a_driver_without_init_is_refused(write: Write) -> None:
    with pytest.raises(DriverFailed, match=r"init of .*example.com/disk"):
        await initialised(NAME, write("""echo '{"status":"Not supported"}'"""))


@pytest.mark.parametrize("status", [0, 1])
async def test_a_call_that_is_not_supported_is_not_made_again(write: Write, status: int) -> None:
    executable = write(f"""echo '{{"status":"Not supported"}}'; exit {status}""")
    asked = driver(executable)
    assert await asked.call("attach") is None
    assert await asked.call("attach") is None
    assert calls(executable) == [["attach"]]


@pytest.mark.parametrize("status", [0, 1])
async def test_a_failure_is_told_in_the_drivers_words(write: Write, status: int) -> None:
    executable = write(f"""echo '{{"status":"Failure","message":"no such volume"}}'; exit {status}""")
    with pytest.raises(DriverFailed, match=r"mount of FlexVolume driver example.com/disk .*: no such volume"):
        await driver(executable).call("mount")


async def test_success_with_an_exit_status_of_failure_is_a_failure(write: Write) -> None:
    with pytest.raises(DriverFailed, match="ended with status 3"):
        await driver(write("""echo '{"status":"Success"}'; exit 3""")).call("mount")


async def test_a_driver_that_dies_of_a_signal_gave_no_answer(write: Write) -> None:
    with pytest.raises(DriverFailed, match="exit status -9"):
        await driver(write("kill -9 $$")).call("mount")


async def test_garbage_is_no_answer(write: Write) -> None:
    with pytest.raises(DriverFailed, match="not JSON"):
        await driver(write("echo mounting")).call("mount")


async def test_standard_error_is_no_part_of_the_answer_and_is_quoted_with_a_failure(write: Write) -> None:
    said = write("""echo warning >&2; echo '{"status":"Success"}'""")
    assert await driver(said).call("mount") is not None
    failed = write("""echo 'cannot\nreach it' >&2; echo '{"status":"Failure"}'""")
    with pytest.raises(DriverFailed, match=r"It wrote: cannot reach it"):
        await driver(failed).call("mount")


async def test_standard_error_without_end_harms_nobody(write: Write) -> None:
    executable = write("""head -c 10000000 /dev/zero >&2; echo '{"status":"Success"}'""")
    assert await driver(executable).call("mount") is not None


async def test_ten_megabytes_of_output_are_refused(write: Write) -> None:
    with pytest.raises(DriverFailed, match="wrote more than 65536 bytes"):
        await driver(
            write("""head -c 10000000 /dev/zero | tr '\\0' ' '; echo '{"status":"Success"}'""")
        ).call("mount")


async def test_output_without_end_is_refused(write: Write) -> None:
    with pytest.raises(DriverFailed, match="wrote more than"):
        await driver(write("exec cat /dev/zero")).call("mount")


def alive(number: int) -> bool:
    try:
        state = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


async def test_a_driver_that_hangs_is_killed_with_its_children(write: Write, tmp_path: Path) -> None:
    executable = write(f"""sleep 1000 & echo $! > {tmp_path}/child; trap '' TERM; wait; sleep 1000""")
    with pytest.raises(
        DriverLate, match=r"mount of FlexVolume driver example.com/disk .* did not end within"
    ):
        await driver(executable, 1.0).call("mount")
    child = int((tmp_path / "child").read_text())
    for _ in range(100):
        if not alive(child):
            break
        await asyncio.sleep(0.05)
    assert not alive(child)


async def test_a_daemon_that_keeps_the_drivers_output_open_lives_on_and_nobody_waits_for_it(
    write: Write, tmp_path: Path
) -> None:
    executable = write(f"""sleep 1000 & echo $! > {tmp_path}/child; echo '{{"status":"Success"}}'""")
    assert await driver(executable).call("mount") is not None
    child = int((tmp_path / "child").read_text())
    assert alive(child)
    os.kill(child, signal.SIGKILL)


async def test_a_driver_that_does_not_read_its_input_finds_none(write: Write) -> None:
    assert await driver(write("""cat; echo '{"status":"Success"}'""")).call("mount") is not None


async def test_a_driver_that_is_gone_was_not_asked(write: Write) -> None:
    executable = write("")
    executable.unlink()
    with pytest.raises(
        DriverMissing, match=r"unmount of FlexVolume driver example.com/disk .*Put the driver there"
    ):
        await driver(executable).call("unmount")


async def test_a_driver_without_its_interpreter_was_not_asked(write: Write) -> None:
    with pytest.raises(DriverMissing, match="the interpreter that it needs"):
        await driver(write("", interpreter="/no/such")).call("mount")


async def test_a_driver_that_may_not_be_executed_was_not_asked(write: Write) -> None:
    executable = write("")
    executable.chmod(0o644)
    with pytest.raises(DriverMissing, match="cannot be started"):
        await driver(executable).call("mount")


async def test_a_driver_that_deletes_itself_in_the_middle_has_answered_all_the_same(write: Write) -> None:
    executable = write("""rm "$0"; echo '{"status":"Success"}'""")
    assert await driver(executable).call("mount") is not None


async def test_a_secret_that_a_driver_quotes_is_not_in_the_error(write: Write) -> None:
    value = base64.b64encode(b"open sesame").decode()
    executable = write(
        f"""echo "{value}" >&2; echo '{{"status":"Failure","message":"open sesame, {value}: denied"}}'"""
    )
    with pytest.raises(DriverFailed) as caught:
        await driver(executable).call("mount", hidden=[value])
    assert "(secret), (secret): denied" in str(caught.value)
    assert value not in str(caught.value)
    assert "sesame" not in str(caught.value)


def test_a_value_that_contains_another_is_hidden_whole() -> None:
    assert without("abcdef abc", ["YWJjZGVm", "YWJj", "", "%"]) == "(secret) (secret)"
