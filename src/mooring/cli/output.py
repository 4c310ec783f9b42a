"""How the commands speak: one-line errors, structured logs. Colour only on terminals; what was said by others
is made printable."""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping, Sequence
from typing import Any, NoReturn, TextIO

import click
import structlog

from mooring.kube.printable import printable

_LOGFMT = structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event"], bool_as_flag=False)


def _logfmt(logger: Any, method: str, event: MutableMapping[str, Any]) -> str:
    return printable(_LOGFMT(logger, method, event))


def fail(message: str, status: int = 1) -> NoReturn:
    """Ends the program with one line."""
    click.echo(f"{click.style('error:', fg='red')} {printable(message)}", err=True)
    sys.exit(status)


COLOURS = {"ok": "green", "look": "yellow", "mend": "red"}


def print_findings(findings: Sequence[tuple[str, str, str]], *, err: bool = False) -> None:
    """What was found, each with its level (of `COLOURS`) and, below it, how it is mended."""
    for level, what, mend in findings:
        click.echo(f"{click.style(f'{level:4}', fg=COLOURS[level])}  {printable(what)}", err=err)
        if mend:
            click.echo(f"      {printable(mend)}", err=err)


def print_table(rows: Sequence[Sequence[str]]) -> None:
    """Columns as wide as needed, two spaces apart; the first row is the header."""
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    for row in cells:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def log_lines(level: str = "info", file: TextIO | None = None) -> None:
    """One event a line on standard error (or to a file): key=value, the time in UTC."""
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _logfmt,  # the last one makes the line: another form replaces it
        ],
        logger_factory=structlog.PrintLoggerFactory(file or sys.stderr),
    )
