"""All operators: each finds its places in a module, and says what it makes of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.mutation import operators_effects, operators_plain
from tests.mutation.source import Change, Source

OPERATORS: tuple[Callable[[Source], Iterator[Change]], ...] = (
    operators_plain.negated_conditions,
    operators_plain.dropped_operands,
    operators_plain.dropped_guards,
    operators_plain.compared_otherwise,
    operators_plain.changed_numbers,
    operators_plain.turned_booleans,
    operators_plain.other_quantifiers,
    operators_plain.other_set_operations,
    operators_plain.early_returns,
    operators_plain.dropped_statements,
    operators_effects.swapped_awaits,
    operators_effects.dropped_awaits,
    operators_effects.dropped_preconditions,
    operators_effects.cache_reads,
    operators_effects.dropped_finally,
    operators_effects.swallowed_errors,
)


def changes(source: Source) -> list[Change]:
    """Every change that an operator makes, in the order of the text. What two operators make alike counts
    once."""
    found: dict[tuple[int, int, str], Change] = {}
    for operator in OPERATORS:
        for change in operator(source):
            found.setdefault((change.start, change.end, change.text), change)
    return sorted(found.values(), key=lambda change: (change.start, change.end, change.operator, change.text))
