"""The tree of `mooring`'s commands, as values: the one source of `--help`, of the reference page and of the man pages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import click

from mooring.cli.main import cli

_BLANK = re.compile(r"\s+")


@dataclass(frozen=True)
class Option:
    """`flags` as they are typed, `--nodes INTEGER`; `about` with its default."""

    flags: str
    about: str


@dataclass(frozen=True)
class Command:
    """`path` is the whole command, "mooring node cut"; `usage` what follows it."""

    path: str
    usage: str
    paragraphs: tuple[str, ...]
    options: tuple[Option, ...]
    commands: tuple[Command, ...]

    @property
    def summary(self) -> str:
        """The first sentence."""
        return self.paragraphs[0].split(". ")[0].removesuffix(".") + "." if self.paragraphs else ""


def tree() -> Command:
    """All of it, from `mooring` down."""
    return _command(cli, click.Context(cli, info_name="mooring", color=False), "mooring")


def walk(command: Command) -> Iterator[Command]:
    """The command, and all below it."""
    yield command
    for each in command.commands:
        yield from walk(each)


def _command(command: click.Command, context: click.Context, path: str) -> Command:
    below: list[Command] = []
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            if found is not None and not found.hidden:
                inner = click.Context(found, info_name=name, parent=context, color=False)
                below.append(_command(found, inner, f"{path} {name}"))
    help_text = command.help or ""
    return Command(
        path,
        " ".join(command.collect_usage_pieces(context)),
        tuple(_BLANK.sub(" ", each).strip() for each in re.split(r"\n\s*\n", help_text) if each.strip()),
        tuple(_options(command, context)),
        tuple(below),
    )


def _options(command: click.Command, context: click.Context) -> Iterator[Option]:
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context) if isinstance(parameter, click.Option) else None
        if record is not None:
            yield Option(_BLANK.sub(" ", record[0]), _BLANK.sub(" ", record[1]))


def page() -> str:
    """The reference page, in Markdown."""
    lines = ["# Commands", "", "All commands and flags, from the same source as `--help`. As man pages: `make man`.", ""]
    root = tree()
    lines += ["| command | what it does |", "|---|---|"]
    lines += [f"| [`{each.path}`](#{anchor(each.path)}) | {cell(each.summary)} |" for each in walk(root) if each is not root]
    for command in walk(root):
        lines += ["", f"## {command.path}", "", *(f"{text(each)}\n" for each in command.paragraphs)]
        lines += ["```", f"{command.path} {command.usage}".rstrip(), "```"]
        if command.options:
            lines += ["", "| flag | |", "|---|---|"]
            lines += [f"| `{each.flags.replace('|', chr(92) + '|')}` | {cell(each.about)} |" for each in command.options]
    return "\n".join(lines) + "\n"


def anchor(heading: str) -> str:
    """As the site, and GitHub, make it of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def text(given: str) -> str:
    """Plain text as Markdown: what would be markup or HTML is shown as it is."""
    parts = re.split(r"(`[^`]*`)", given)
    return "".join(part if part.startswith("`") else re.sub(r"([\\*_<>\[\]{}])", r"\\\1", part) for part in parts)


def cell(given: str) -> str:
    """The same in a cell of a table."""
    return text(given).replace("|", "\\|")
