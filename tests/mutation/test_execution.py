"""Where a mutant is felt, and which contexts execute it."""

from __future__ import annotations

from pathlib import Path

from coverage import CoverageData
from tests.mutation.execution import Executed, felt_at
from tests.mutation.mutants import Mutant, mutants_of
from tests.mutation.rooms import SOURCE

ROOM = "controllers/attacher"
CONTROLLER = SOURCE / ROOM / "controller.py"


def of(operator: str, text: str) -> Mutant:
    return next(
        mutant
        for mutant in mutants_of(ROOM)
        if mutant.operator == operator
        and mutant.path == CONTROLLER
        and any(text in line for line in mutant.before)
    )


def line_of(text: str) -> int:
    return next(at for at, line in enumerate(CONTROLLER.read_text().splitlines(), 1) if text in line)


def test_a_statement_is_felt_where_it_stands():
    statement = "await self._correct(record, status)"
    assert felt_at(of("drop-await", statement)) == {CONTROLLER: {line_of(statement)}}


def test_a_guard_is_felt_where_it_leaves():
    assert felt_at(of("drop-guard", "continue")) == {CONTROLLER: {line_of("continue")}}


def test_a_constant_is_felt_where_it_is_used():
    found = felt_at(of("constant", "VERIFY_S = 60.0"))
    assert found is not None
    assert line_of("if self._options.verify_period_s:") in found[CONTROLLER]


def test_contexts_that_execute_none_of_its_lines_do_not_feel_a_mutant(tmp_path: Path):
    mutant = of("drop-await", "await self._correct(record, status)")
    for number, lines in enumerate(([mutant.line], [mutant.line - 1], [mutant.line])):
        data = CoverageData(str(tmp_path / f"lines.{number}"))
        data.set_context(str(number))
        data.add_lines({str(CONTROLLER): lines})
        data.write()
        data.close()
    executed = Executed(tmp_path.glob("lines.*"))
    assert executed.of(mutant) == {"0", "2"}
    assert executed.everywhere == {"0", "1", "2"}
