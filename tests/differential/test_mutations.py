"""The embedded server answers mutations of valid objects as the real kube-apiserver was recorded to answer
them.

Compared are the status code and the field of the first cause. `tests/real` plays thousands to both.
"""

from __future__ import annotations

import pytest
from tests.conftest import run_in_virtual_time
from tests.differential.mutations.draw import Mutation, draw
from tests.differential.mutations.hostile import hostile
from tests.differential.mutations.known import classes, unlisted
from tests.differential.mutations.play import Outcome, play
from tests.differential.mutations.record import chosen, recorded
from tests.differential.mutations.report import Comparison, compare
from tests.differential.servers import embedded, to_embedded

LEAST = 0.99
KEPT = ("create PersistentVolumeClaim/sample: set spec.dataSource ",)
"""The one class of hostile mutations that is answered otherwise, and meant: `docs/api-differences.md`."""


def played(mutations: list[Mutation]) -> list[Outcome]:
    """Our outcomes."""

    async def story() -> list[Outcome]:
        server = embedded()
        await server.start()
        return await play(mutations, to_embedded(server))

    return run_in_virtual_time(story())


@pytest.fixture(scope="module")
def compared() -> Comparison:
    """The recorded mutations on both servers."""
    mutations, known = chosen(), recorded()
    assert [str(each) for each in mutations] == [what for what, _ in known], "record again"
    return compare(mutations, [outcome for _, outcome in known], played(mutations))


def test_drawn_mutations_are_answered_as_the_real_server_answers_them(compared: Comparison) -> None:
    print(compared.summary())
    assert compared.agreement >= LEAST, compared.listed()


def test_every_disagreement_is_of_a_class_that_is_listed(compared: Comparison) -> None:
    assert len(classes()) > 20
    assert not unlisted(compared.disagreements)


def test_hostile_mutations_are_answered_as_the_real_server_answers_them(compared: Comparison) -> None:
    asked = set(hostile_names())
    other = [each for each in compared.disagreements if str(each.mutation) in asked]
    assert not [str(each) for each in other if not str(each.mutation).startswith(KEPT)]


def hostile_names() -> list[str]:
    """The hostile mutations as they are recorded."""
    return [str(each) for each in hostile()]


def test_a_seed_draws_the_same_mutations_again_and_another_one_others() -> None:
    first = [str(each) for each in draw(1, 200)]
    assert first == [str(each) for each in draw(1, 200)]
    assert first != [str(each) for each in draw(2, 200)]
