"""The rooms that are mutated: folders of `src/mooring`, by their paths."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "mooring"

SAFETY = (
    "controllers/attachdetach",
    "controllers/attacher",
    "node/volumes",
    "controllers/binding",
    "controllers/provisioning",
    "controllers/statefulset",
    "ebs",
    "apiserver/store",
)
"""What S1 to S22 rest on; the default. Any other folder may be asked for by its path."""


class NoSuchRoom(Exception):
    """There is no folder of that path with modules in it."""


def modules_of(room: str) -> Iterator[Path]:
    """The modules of a room. Raises NoSuchRoom."""
    folder = SOURCE / room
    found = sorted(path for path in folder.rglob("*.py") if not path.name.endswith("_pb2.py"))
    if not found:
        raise NoSuchRoom(
            f"src/mooring/{room} is no folder with modules; the safety rooms are {', '.join(SAFETY)}"
        )
    yield from found


def checked(rooms: Sequence[str]) -> tuple[str, ...]:
    """These rooms, without trailing slashes. Raises NoSuchRoom, also where one lies within another: a place
    would be drawn twice."""
    named = tuple(dict.fromkeys(room.strip("/") for room in rooms))
    for room in named:
        next(modules_of(room))
        if outer := next((other for other in named if room.startswith(f"{other}/")), None):
            raise NoSuchRoom(f"src/mooring/{room} lies within src/mooring/{outer}: name one of them")
    return named


def module_name(path: Path) -> str:
    """`mooring.ebs.driver` for its file."""
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
