"""Former in-tree volumes and classes that nobody wrote down: each is what csi-translation-lib makes of it."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from tests.volumes.migration.answers import answered, ask_library, expected
from tests.volumes.migration.cases import questions


def test_new_questions_are_answered_as_the_library_answers(programs: Path):
    if not (programs / "csi-translation").exists():
        pytest.skip("needs csi-translation: run `make assets`")
    seed = random.randrange(2**32)
    asked = questions(seed, 10_000)
    for question, answer in zip(asked, ask_library(programs / "csi-translation", asked), strict=True):
        if "ended" not in answer:
            said = f"seed {seed}: {json.dumps([question, answer])}"
            assert answered(question) == expected(question, answer), said
