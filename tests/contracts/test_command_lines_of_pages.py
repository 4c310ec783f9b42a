"""Every command line of `mooring` that a page shows is one: its commands and flags exist. Whether it does
what the page says is for the tests that type it (tests/cluster)."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from tests.contracts.references import PAGES, ROOT

from mooring.cli.main import cli

FENCED = re.compile(r"^ *```[a-z]*\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
SPAN = re.compile(r"(?<!`)`((?:kubectl )?mooring [^`\n]+)`(?!`)")
COMMAND = re.compile(
    r"(?:^|[;&|(]|\$\()\s*(?:\$ +)?(?:sudo +)?(?:\.venv/bin/)?(?:kubectl )?mooring( [^\n]*)?$", re.MULTILINE
)
END = re.compile(r"\$\(|(?<!\\)[|;&<>)#…]|\.\.\.|\s--\s")
"""Where the words of one command are over, for a shell or a reader."""
CHOICE = re.compile(r"[/\\|]+")


def lines(page: Path) -> Iterator[str]:
    """What follows the program's name."""
    text = page.read_text().replace("\\\n", " ")
    for block in FENCED.findall(text):
        yield from (found or "" for found in COMMAND.findall(block))
    for span in SPAN.findall(FENCED.sub("", text)):
        yield span.partition("mooring")[2]


def words(line: str) -> list[str]:
    plain = END.split(line)[0].replace("[", " ").replace("]", " ")
    try:
        return shlex.split(plain)
    except ValueError:
        return plain.split()


def flags(command: click.Command, context: click.Context) -> set[str]:
    return {flag for each in command.get_params(context) for flag in (*each.opts, *each.secondary_opts)}


def trouble(line: str) -> str:
    """Which of its words does not exist; "" if all do."""
    command: click.Command = cli
    context = click.Context(cli)
    rest = words(line)
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        choice = [name for name in CHOICE.split(rest.pop(0)) if not name.isupper()]
        found = [command.get_command(context, name) for name in choice]
        if None in found:
            return f"no command {choice[found.index(None)]}"
        if len(found) != 1:  # the reader chooses
            return ""
        (command,) = found
        context = click.Context(command, parent=context)
    known = flags(command, context)
    if isinstance(command, click.Group):  # `mooring simulate` chooses its command by the flags
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            known |= {f"--{name}"} | (flags(found, context) if found else set())
    unknown = [word for word in rest if word.startswith("--") and word.partition("=")[0] not in known]
    return f"no flag {unknown[0]} of {command.name}" if unknown else ""


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page.name != "CHANGELOG.md"],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_the_commands_and_flags_of_a_page_exist(page: Path):
    assert [f"mooring{line}: {why}" for line in lines(page) if (why := trouble(line))] == []


@pytest.mark.parametrize(
    "line",
    [" up --no-such-flag", " nod kill x", " node kil x", " why pod/x --jsn | jq", " why pod/x --all=x --jsn"],
)
def test_what_does_not_exist_is_found(line: str):
    assert trouble(line)
