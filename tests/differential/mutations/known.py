"""The classes of disagreement that are known and meant: the table in `docs/api-differences.md`, as data."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from tests.differential.mutations.report import Disagreement

LIST = Path(__file__).parents[3] / "docs" / "api-differences.md"


@cache
def classes() -> tuple[str, ...]:
    """The patterns of kinds and fields, from the first column of the table."""
    table = LIST.read_text().partition("## Validation")[2]
    rows = re.findall(r"^\| (`.+?) \| .+ \|$", table, re.MULTILINE)
    return tuple(pattern for row in rows for pattern in re.findall(r"`([^`]+)`", row))


def unlisted(disagreements: Iterable[Disagreement]) -> list[str]:
    """The disagreements that are of no class of the table."""
    return [
        str(each) for each in disagreements if not any(fnmatchcase(each.subject, one) for one in classes())
    ]
