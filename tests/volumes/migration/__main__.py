"""Writes the library's answers down anew: `python -m tests.volumes.migration PROGRAM`, where PROGRAM is built
from tests/real/assets/csi-translation (`scripts/assets`)."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.volumes.migration.answers import RECORDED, ask_library
from tests.volumes.migration.cases import questions

SEED, NUMBER = 1, 600


def main(program: Path) -> None:
    asked = questions(SEED, NUMBER)
    pairs = zip(asked, ask_library(program, asked), strict=True)
    lines = [json.dumps([question, answer], separators=(",", ":")) + "\n" for question, answer in pairs]
    RECORDED.write_text("".join(lines))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
