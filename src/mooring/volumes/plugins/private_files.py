"""Files with a secret in them, for programs that read it there and nowhere else: readable for root alone, and
there for no longer than the program runs. Blocking.
"""

from __future__ import annotations

import contextlib
import os


def write(path: str, text: str) -> None:
    """Writes it anew, with its directory. Raises OSError."""
    os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
    remove(path)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)


def remove(path: str) -> None:
    """Also if it is not there. Raises OSError."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
