"""Makes the golden traces anew."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "doubles"))

from tests.golden.golden import DIRECTORY, path, texts

if __name__ == "__main__":
    with redirect_stdout(StringIO()):  # what the parts log
        made = texts()
    DIRECTORY.mkdir(exist_ok=True)
    for old in DIRECTORY.glob("*.txt"):
        old.unlink()
    for name, text in made.items():
        path(name).write_text(text)
        print(path(name))
