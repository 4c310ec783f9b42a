"""Writes the library's answers down anew: `python -m tests.volumes.migration PROGRAM`, where PROGRAM is built
from tests/real/assets/csi-translation (`scripts/assets`)."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.volumes.migration.answers import RECORDED, ask_library
from tests.volumes.migration.cases import questions

SEED, NUMBER = 1, 600

asked = questions(SEED, NUMBER)
pairs = zip(asked, ask_library(Path(sys.argv[1]), asked), strict=True)
RECORDED.write_text(
    "".join(json.dumps([question, answer], separators=(",", ":")) + "\n" for question, answer in pairs)
)
