"""The differences that are known and meant: the numbered entries of `docs/api-differences.md`, as data.

An entry begins with what it is about, in three parts of which the first is needed:

    N. `path`, `path` where the real server says `text`, `text` in `step`, `step`: the reason.

Each is a glob: of the place in an answer, of what the real server has there, of the names of the script's
steps. A `[*]` in a path is an index.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from tests.differential.answers import Difference

LIST = Path(__file__).parents[2] / "docs" / "api-differences.md"

_GLOBS = r"((?:`[^`]+`(?:,\s+)?)+)"
_ENTRY = re.compile(
    rf"^\d+\.\s+{_GLOBS}(?:\s+where the real server says\s+{_GLOBS})?(?:\s+in\s+{_GLOBS})?:\s", re.MULTILINE
)


@dataclass(frozen=True)
class Known:
    """One entry: the globs of its places, texts and steps; without texts or steps it is about any."""

    paths: tuple[str, ...]
    texts: tuple[str, ...]
    steps: tuple[str, ...]

    def covers(self, step: str, difference: Difference) -> bool:
        """Whether the entry is about this difference."""
        real = difference.real if isinstance(difference.real, str) else json.dumps(difference.real)
        return (
            self.is_about(difference.path)
            and (not self.texts or any(fnmatchcase(real, text) for text in self.texts))
            and (not self.steps or any(fnmatchcase(step, each) for each in self.steps))
        )

    def is_about(self, path: str) -> bool:
        """Whether the entry is about this place, whatever is there."""
        return any(fnmatchcase(path, glob.replace("[", "[[]")) for glob in self.paths)


def known() -> list[Known]:
    """The entries of the list."""
    return [Known(*map(_globs, found)) for found in _ENTRY.findall(LIST.read_text())]


def _globs(text: Any) -> tuple[str, ...]:
    return tuple(re.findall(r"`([^`]+)`", text))
