"""Man pages of the tree of commands: one for each, `mooring-node-cut(1)`, as git has them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from mooring import __version__

from .commands import Command, tree, walk


def write(folder: Path) -> list[Path]:
    """Makes all of them in the folder; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    root = tree()
    for command in walk(root):
        path = folder / f"{name(command)}.1"
        path.write_text(roff(command, parent=_parent(command, root)))
        written.append(path)
    return written


def name(command: Command) -> str:
    """Of its page: mooring-node-cut."""
    return command.path.replace(" ", "-")


def _parent(command: Command, root: Command) -> Command | None:
    return next((each for each in walk(root) if command in each.commands), None)


def roff(command: Command, parent: Command | None = None) -> str:
    """One page."""
    return "\n".join(_lines(command, parent)) + "\n"


def _lines(command: Command, parent: Command | None) -> Iterator[str]:
    title = name(command)
    yield f'.TH "{title.upper()}" 1 "" "Mooring {__version__}" "Mooring"'
    yield from (".SH NAME", f"{_text(title)} \\- {_text(command.summary.removesuffix('.'))}")
    yield from (".SH SYNOPSIS", f".B {_text(command.path)}", _text(command.usage))
    yield ".SH DESCRIPTION"
    for paragraph in command.paragraphs:
        yield from (".PP", _text(paragraph))
    if command.options:
        yield ".SH OPTIONS"
        for option in command.options:
            yield from (".TP", f".B {_text(option.flags)}", _text(option.about) or "\\&")
    if command.commands:
        yield ".SH COMMANDS"
        for each in command.commands:
            yield from (".TP", f".BR {_text(name(each))} (1)", _text(each.summary))
    if parent is not None:
        yield from (".SH SEE ALSO", f".BR {_text(name(parent))} (1)")


def _text(given: str) -> str:
    """Plain text, of which roff makes nothing else: a line that begins with a dot or a quote is no request."""
    escaped = given.replace("\\", "\\e").replace("-", "\\-").replace("`", "")
    return re.sub(r"^([.'])", r"\\&\1", escaped)
