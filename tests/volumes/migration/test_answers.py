"""Every field of a volume or class of a former in-tree plugin is what csi-translation-lib makes of it."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from tests.volumes.migration.answers import RECORDED, Answer, answered, expected
from tests.volumes.migration.cases import FIELDS, KEYS, Question

PAIRS: list[tuple[Question, Answer]] = [json.loads(line) for line in RECORDED.read_text().splitlines()]


@pytest.mark.parametrize("number", range(len(PAIRS)))
def test_as_the_library_answers(number: int):
    question, answer = PAIRS[number]
    if "ended" not in answer:  # what ends the library is answered here: see below
        assert answered(question) == expected(question, answer), json.dumps([question, answer], indent=1)


def test_every_kind_is_asked_in_every_direction_and_some_are_refused():
    asked = Counter((question["do"], *_kinds(question)) for question, _ in PAIRS)
    assert asked.keys() >= {(do, field) for do in ("csi", "inline") for field in FIELDS}
    assert asked.keys() >= {("in-tree", driver) for driver in KEYS}
    assert asked.keys() >= {("class", provisioner) for provisioner in FIELDS.values()}
    refused = Counter(question["do"] for question, answer in PAIRS if "refused" in answer)
    assert min(refused[do] for do in ("csi", "inline", "in-tree", "class")) >= 5


def _kinds(question: Question) -> list[str]:
    written = question["object"]
    spec = written.get("spec", written)
    named = [*(spec.keys() & FIELDS.keys()), spec.get("csi", {}).get("driver"), spec.get("provisioner")]
    return [name for name in named if name]


def test_what_ends_the_library_is_an_inline_vsphere_volume_with_a_storage_policy_and_is_answered():
    ended = [question for question, answer in PAIRS if "ended" in answer]
    assert ended and all(
        question["object"].get("vsphereVolume", {}).get("storagePolicyName") for question in ended
    )
    for question in ended:
        found = answered(question)
        assert found is not None and found.spec.csi.volume_attributes == {"storagepolicyname": "gold"}
