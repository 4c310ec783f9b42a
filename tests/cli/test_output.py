"""How the commands speak of what others have said."""

from __future__ import annotations

import io

import pytest
import structlog

from mooring.cli.output import fail, log_lines
from mooring.cluster.tables import table
from mooring.kube.reason import Reason
from mooring.kube.times import wall_clock
from mooring.why import text
from mooring.why.cause import Cause

HOSTILE = "x\nlevel=error event=forged \x1b[2J\r\u202e"


@pytest.fixture
def own_log() -> io.StringIO:
    before = structlog.get_config()
    file = io.StringIO()
    log_lines(file=file)
    yield file
    structlog.configure(**before)


def test_an_event_is_one_line_of_the_log_whatever_its_values_are(own_log: io.StringIO):
    structlog.get_logger().info("attached", volume=HOSTILE)
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        structlog.get_logger().exception("failed")
    lines = own_log.getvalue().split("\n")
    assert len(lines) == 3
    assert lines[2] == ""
    assert "\x1b" not in own_log.getvalue()
    assert "\r" not in own_log.getvalue()


def test_an_error_is_one_line(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        fail(f"no volume {HOSTILE}")
    printed = capsys.readouterr().err
    assert printed.count("\n") == 1
    assert "\x1b[2J" not in printed


def test_a_row_of_a_table_is_one_line():
    assert len(table(("NAME",), [(HOSTILE,)]).splitlines()) == 2
    assert "\x1b" not in table(("NAME",), [(HOSTILE,)])


def test_an_explanation_shows_escape_sequences_and_does_not_send_them():
    cause = Cause(f"pod/{HOSTILE}", Reason(HOSTILE, HOSTILE), next_step=HOSTILE)
    printed = "\n".join([*text.lines(cause, wall_clock(), lambda words, colour: words)])
    assert not set(printed) & {"\x1b", "\r", "\u202e"}
    one = text.one_line(cause, wall_clock(), lambda words, colour: words)
    assert len(one.splitlines()) == 1
