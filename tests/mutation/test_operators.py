"""Each operator: what it makes of a small source, and what it leaves alone."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent, indent

import pytest
from tests.mutation import operators_effects as effects
from tests.mutation import operators_plain as plain
from tests.mutation.mutants import mutants_of
from tests.mutation.operators import changes
from tests.mutation.rooms import SAFETY
from tests.mutation.source import Change, Source


def source(text: str, name: str = "decide.py") -> Source:
    return Source(Path(name), dedent(text))


def made(operator: Callable[[Source], Iterator[Change]], text: str) -> list[str]:
    """What the operator makes of a function's body, each without the function's head and indentation."""
    head = "async def story(self):\n"
    whole = source(head + indent(dedent(text).strip("\n"), "    "))
    return [dedent(whole.changed(change).removeprefix(head)) for change in operator(whole)]


def test_a_condition_is_negated():
    assert made(plain.negated_conditions, "if a or b:\n    f()") == ["if not (a or b):\n    f()"]


def test_a_negation_is_taken_away():
    assert made(plain.negated_conditions, "while not a:\n    f()") == ["while (a):\n    f()"]


def test_conditions_of_choices_and_comprehensions_are_negated_too():
    assert set(made(plain.negated_conditions, "x = [a if b else c for b in d if e]")) == {
        "x = [a if b else c for b in d if not (e)]",
        "x = [a if not (b) else c for b in d if e]",
    }


def test_each_operand_is_dropped_and_what_is_left_keeps_its_meaning():
    assert made(plain.dropped_operands, "x = a and (b or c)") == [
        "x = (b or c)",
        "x = a",
        "x = a and (c)",
        "x = a and (b)",
    ]


def test_a_guard_does_nothing_any_more():
    assert made(plain.dropped_guards, "if a:\n    f()\n    return") == ["if a:\n    pass"]


def test_a_condition_with_another_way_is_no_guard():
    assert made(plain.dropped_guards, "if a:\n    return 1\nelse:\n    f()") == []
    assert made(plain.dropped_guards, "if a:\n    f()") == []


def test_a_boundary_moves_by_one():
    assert made(plain.compared_otherwise, "x = a <= b < c") == ["x = a < b < c", "x = a <= b <= c"]


def test_a_comparison_is_turned_round_unless_it_is_the_whole_condition():
    assert made(plain.compared_otherwise, "return a is not None and f(b) == c") == [
        "return a is None and f(b) == c",
        "return a is not None and f(b) != c",
    ]
    assert made(plain.compared_otherwise, "if a == b:\n    f()") == []


def test_numbers_are_one_more_or_less_and_seconds_doubled_or_none():
    assert made(plain.changed_numbers, "x = f(3)") == ["x = f(4)", "x = f(2)"]
    assert made(plain.changed_numbers, "x = f(0)") == ["x = f(1)", "x = f((-1))"]
    assert made(plain.changed_numbers, "wait_s = 3") == ["wait_s = 6", "wait_s = 0"]
    assert made(plain.changed_numbers, "x = 0.5") == ["x = 1.0", "x = 0.0"]


def test_what_a_number_is_for_is_known_of_parameters_too():
    whole = source("def f(a, wait_s=3): ...")
    assert [whole.changed(each) for each in plain.changed_numbers(whole)] == [
        "def f(a, wait_s=6): ...",
        "def f(a, wait_s=0): ...",
    ]


def test_truth_is_turned_round():
    assert made(plain.turned_booleans, "f(True, tell=False)") == [
        "f(False, tell=False)",
        "f(True, tell=True)",
    ]


def test_quantifiers_change_places():
    assert made(plain.other_quantifiers, "return any(a)") == ["return all(a)"]


def test_operations_on_sets_and_differences_of_numbers_become_others():
    assert made(plain.other_set_operations, "x = a | b") == ["x = a & b"]
    assert made(plain.other_set_operations, "x = names - others") == ["x = names & others"]
    assert made(plain.other_set_operations, "x = now - since") == ["x = now + since"]


def test_a_union_of_types_is_none_of_sets():
    assert list(plain.other_set_operations(source("Key = str | int"))) == []


def test_a_function_returns_at_once():
    assert made(plain.early_returns, '"""Says."""\nf()\nreturn x') == [
        '"""Says."""\nreturn None\nf()\nreturn x'
    ]


def test_a_generator_yields_nothing():
    assert made(plain.early_returns, "yield 1") == ["return\nyield 1"]


def test_a_function_that_does_nothing_has_no_early_return():
    assert made(plain.early_returns, "return None") == []
    assert made(plain.early_returns, "raise NotImplementedError") == []
    assert made(plain.early_returns, '"""What it does."""\n...') == []


def test_a_call_is_not_made_and_what_is_remembered_is_not_stored():
    assert made(plain.dropped_statements, "self.known.discard(a)") == ["pass"]
    assert made(plain.dropped_statements, "self.at = a") == ["pass"]
    assert made(plain.dropped_statements, "del self.known[a]") == ["pass"]


def test_a_local_variable_keeps_its_value():
    assert made(plain.dropped_statements, "a = f()") == []


def test_two_awaited_writes_change_places():
    text = "a = await f()\nawait g(\n    1,\n)\nh()"
    assert made(effects.swapped_awaits, text) == ["await g(\n    1,\n)\na = await f()\nh()"]


def test_an_awaited_call_that_needs_what_the_one_before_has_given_stays_behind_it():
    assert made(effects.swapped_awaits, "a = await f()\nawait g(a)") == []


def test_an_awaited_call_is_not_made():
    assert made(effects.dropped_awaits, "await f(\n    1,\n)") == ["pass"]
    assert made(effects.dropped_awaits, "a = await f()") == []


def test_a_write_loses_its_preconditions():
    assert made(effects.dropped_preconditions, "await c.delete(K, n, uid=u, resource_version=v)") == [
        "await c.delete(K, n, resource_version=v)",
        "await c.delete(K, n, uid=u)",
    ]
    assert made(effects.dropped_preconditions, "await c.revise(a, {})") == [
        "await c.revise(a, {}, any_version=True)"
    ]
    assert made(effects.dropped_preconditions, "x = {'uid': u, 'a': 1}") == ["x = {'a': 1}"]


def test_a_live_read_becomes_one_of_the_cache_of_that_kind():
    text = """
    class C:
        def __init__(self, nodes: Informer[Node]) -> None:
            self._nodes = nodes
            self._claims = self.watch(Claim, f)

        async def story(self):
            a = await self.client.find(Claim, name, namespace)
            b = (await self._client.list(Node)).items
            c = await self.client.get(Pod, name)
    """
    whole = source(text)
    written = [change.text for change in effects.cache_reads(whole)]
    assert written == ['self._claims.get(f"{namespace}/{name}")', "self._nodes.items()"]


def test_what_is_to_be_done_in_any_case_is_not():
    assert made(effects.dropped_finally, "try:\n    f()\nfinally:\n    g()\n    h()") == [
        "try:\n    f()\nfinally:\n    pass"
    ]


def test_errors_go_unnoticed():
    text = "try:\n    await f()\nexcept E:\n    g()\n    raise"
    assert made(effects.swallowed_errors, text) == [
        "try:\n    await f()\nexcept E:\n    pass",
        'try:\n    with __import__("contextlib").suppress(Exception): await f()\nexcept E:\n    g()\n    raise',
    ]


def test_a_handler_that_returns_where_the_function_would_end_is_left_alone():
    assert made(effects.swallowed_errors, "try:\n    f()\nexcept E:\n    return None") == []
    assert len(made(effects.swallowed_errors, "try:\n    f()\nexcept E:\n    return None\ng()")) == 1


@pytest.mark.parametrize(
    ("awaited", "number"), [("sleep(1)", 0), ("asyncio.sleep(1)", 0), ("sleep", 1), ("f(1)", 1)]
)
def test_a_pause_has_no_errors_that_could_be_swallowed(awaited: str, number: int) -> None:
    assert len(made(effects.swallowed_errors, f"async def g():\n    await {awaited}\n")) == number


@pytest.mark.parametrize(
    "text",
    [
        "def f(a: int | None = None) -> bool | None: ...",
        "x: int | None",
        'def f():\n    """More than 1 thing."""\n    raise E(1, a and b, f"{a or b}")',
        "def f(self):\n    self.log.info('a b', count=1, yes=a and b)",
        "def f(self):\n    metrics.corrected(a or b)",
        "async def f(self):\n    self.recorder.event(a, 'Warning' if b else 'Normal', 'c')",
        "assert a and b == 1",
        "def f(a):\n    assert_never(a)",
        "def __repr__(self):\n    return f(1) or self.name",
        "@decorated(1, True)\nclass C:\n    pass",
        "import a",
    ],
)
def test_texts_logs_metrics_events_annotations_and_assertions_are_left_alone(text: str):
    left = [change for change in changes(source(text)) if change.operator != "early-return"]
    assert left == []


def test_modules_that_only_tell_are_left_alone():
    assert changes(source("def f(a):\n    return a + 1", "metrics.py")) == []


@pytest.mark.soak
@pytest.mark.parametrize("room", SAFETY)
def test_every_mutant_of_the_rooms_can_be_compiled(room: str):
    every = 1 if os.environ.get("MOORING_SOAK") else 7
    for mutant in mutants_of(room)[::every]:
        compile(mutant.source(), mutant.file, "exec")


def test_names_of_mutants_are_their_own():
    names = [mutant.name for room in SAFETY for mutant in mutants_of(room)]
    assert len(names) == len(set(names))
