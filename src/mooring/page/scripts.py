"""The page's scripts: modules by behaviour, served as they are, and all of them as one for a file that stands
alone. Pure.

No tool builds anything: `as_one` leaves out the imports, each of which is a line of its own, and the word
`export`. So no two modules may have something of one name at their top; a test holds all of this.
"""

from __future__ import annotations

import re
from collections.abc import Callable

SCRIPTS = (
    *("words", "state", "connection", "list", "frame", "rows", "strips", "counts", "waiting", "life", "time"),
    *("hands", "main"),
)
"""In the order in which they make one script: each after what it needs while it is read."""

_IMPORT = re.compile(r"^import [^\n]*\n", re.MULTILINE)
_EXPORT = re.compile(r"^export ", re.MULTILINE)


def path_of(script: str) -> str:
    """Where a script is, among the assets and on the server."""
    return f"js/{script}.js"


def as_one(read: Callable[[str], str]) -> str:
    """All scripts as one module. `read` gives the text of an asset."""
    return "\n".join(_EXPORT.sub("", _IMPORT.sub("", read(path_of(script)))) for script in SCRIPTS)
