"""The number of what a data directory holds and in which form: its schema, in the file `schema.json`.

Guarantees: a directory of a newer schema is refused, and nothing in it is changed; one of an older schema, or
without a number (0: it is new, or of before there were numbers), is brought up to date step by step, and has
the number of each step only when that is done. So a step that was interrupted is done again: it must bear
that.

It knows of no directory in particular: who has one says which steps there are.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

FILE = "schema.json"

Step = Callable[[Path], None]
"""Brings a directory from one schema to the next."""


class SchemaRefused(Exception):
    """The directory is of a newer schema, or its number cannot be read; the message says what to do."""


def nothing(directory: Path) -> None:
    """The step of a schema that only has another number than the one before."""


def check(directory: Path, steps: Sequence[Step]) -> int:
    """The schema of the directory. Raises SchemaRefused if this program, which knows of `steps`, must not use
    it."""
    file, known = directory / FILE, len(steps)
    try:
        found = _number(json.loads(file.read_bytes()))
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise SchemaRefused(f"{file} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError):
        raise SchemaRefused(
            f"{file} is damaged: restore it from a copy of the directory, or use another directory"
        ) from None
    if found > known:
        raise SchemaRefused(
            f"{directory} was written by a newer version of Mooring: its schema is {found}, and this version knows "
            f"those up to {known}. Use that version, or another directory; nothing was changed"
        )
    return found


def upgrade(directory: Path, steps: Sequence[Step]) -> int:
    """Brings the directory to the schema `len(steps)`, and returns the one that it had. Raises SchemaRefused
    as `check` does, and if its number cannot be written. Only for who holds the directory alone."""
    before = check(directory, steps)
    for number, step in enumerate(steps[before:], before + 1):
        step(directory)
        try:
            _write(directory, number)
        except OSError as error:
            raise SchemaRefused(f"{directory / FILE} cannot be written: {error.strerror}") from error
    return before


def _number(content: Any) -> int:
    found = content.get("schema") if isinstance(content, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    if type(found) is not int or found < 1:  # pyright: ignore[reportUnknownArgumentType]
        raise ValueError(FILE)
    return found


def _write(directory: Path, number: int) -> None:
    draft = directory / f".{FILE}.new"
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w") as file:
        file.write(json.dumps({"schema": number}) + "\n")
        file.flush()
        os.fsync(file.fileno())
    draft.replace(directory / FILE)
    folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
