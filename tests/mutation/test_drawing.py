"""Which mutants are drawn, how they are named, and which of them are proven to change nothing."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import pytest
from tests.mutation.drawing import drawn
from tests.mutation.equivalents import Equivalent, equivalents, proof_of
from tests.mutation.mutants import Mutant, mutants_of, named
from tests.mutation.rooms import ROOT, NoSuchRoom, checked

ROOMS = ("controllers/attacher", "controllers/binding")


def test_the_same_seed_draws_the_same_mutants():
    assert drawn("a", 10, ROOMS) == drawn("a", 10, ROOMS)
    assert drawn("a", 10, ROOMS) != drawn("b", 10, ROOMS)


@pytest.mark.parametrize("hash_seed", ["0", "1"])
def test_what_is_drawn_does_not_depend_on_hashes_of_strings(hash_seed: str):
    command = [
        sys.executable,
        "-m",
        "tests.mutation",
        "--list",
        "--seed",
        "a",
        "--count",
        "6",
        "--rooms",
        *ROOMS,
    ]
    done = subprocess.run(
        command, cwd=ROOT, env={"PYTHONHASHSEED": hash_seed}, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [mutant.name for mutant in drawn("a", 6, ROOMS)]


def test_every_room_has_as_many():
    found = drawn("a", 20, ROOMS)
    assert Counter(mutant.room for mutant in found) == dict.fromkeys(ROOMS, 10)


def test_no_two_mutants_begin_on_the_same_line():
    found = drawn("a", 10_000, ROOMS)
    assert len({(mutant.file, mutant.line) for mutant in found}) == len(found)


def test_more_seeds_of_the_same_rooms_draw_other_operators_of_a_line():
    first, second = ({mutant.name for mutant in drawn(seed, 10_000, ROOMS)} for seed in "ab")
    assert first != second


def test_a_mutant_is_found_by_its_name():
    mutant = drawn("a", 1, ROOMS)[0]
    assert named(mutant.name) == mutant
    with pytest.raises(KeyError):
        named("controllers/binding:decide.py:1:drop-await")


def test_a_mutant_shows_what_it_changes():
    mutant = next(each for each in mutants_of("controllers/binding") if each.operator == "drop-await")
    assert mutant.diff().startswith(f"--- {mutant.file}\n+++ {mutant.file}\n@@ ")
    assert "\n+" in mutant.diff().partition("@@ ")[2]


def test_a_folder_without_modules_is_no_room():
    with pytest.raises(NoSuchRoom, match="no folder with modules; the safety rooms are"):
        checked(["controllers/attaching"])


def test_a_room_within_another_one_is_refused():
    with pytest.raises(NoSuchRoom, match="lies within"):
        checked(["controllers", "controllers/binding/"])


def place(mutant: Mutant) -> Equivalent:
    before, after = "\n".join(mutant.before), "\n".join(mutant.after)
    return Equivalent(mutant.file, mutant.function, mutant.operator, before, after, "It is so.")


def test_a_proof_is_about_one_mutant_alone_wherever_its_line_has_moved():
    mutants = mutants_of("controllers/binding")
    known = place(mutants[3])
    assert [mutant for mutant in mutants if proof_of(mutant, [known])] == [mutants[3]]


def test_each_proof_has_its_place_in_the_sources():
    gone = [
        each
        for each in equivalents()
        if not any(
            each.is_this(mutant)
            for mutant in mutants_of(str((ROOT / each.file).parent.relative_to(ROOT / "src/mooring")))
        )
    ]
    assert gone == []


def test_each_proof_says_something():
    assert [each for each in equivalents() if len(each.proof.split()) < 6] == []
