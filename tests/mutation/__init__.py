"""Mutation testing without tuning: mutants are drawn mechanically, and judged by simulator and unit tests.

    python -m tests.mutation                          # 300 mutants of the safety rooms; seed: HEAD's hash
    python -m tests.mutation --seed 7 --count 40 --by simulator --rooms node/volumes controllers/binding
    python -m tests.mutation --resume DIR             # can be stopped, and goes on where it was
    python -m tests.mutation --list                   # what would be drawn
    python -m tests.mutation --show NAME              # its diff; --only NAME: this one alone

A mutant is one change of one place of production code (`operators_plain`, `operators_effects`): a condition
negated, an operand, a guard, an awaited call or a precondition dropped, two awaited writes swapped, the cache
read instead of the API server, an error swallowed, a constant changed. What only tells (texts, logs, metrics,
Kubernetes Events) is left out (`left_out`). Which mutants are drawn depends on the seed and the sources
alone, evenly over the rooms (`drawing`); the hand-written ones of `mooring simulate mutants` have no part in
it.

The simulator plays seeds with the mutant in, as `mooring simulate run` does, until an invariant is violated,
200 at most. Seeds that do not execute its lines come out as they are without it, and are not played: which
lines a seed executes is measured once, on all of them (`measuring`, `execution`). So it is known, too, which
mutants the simulator cannot see at all; they count apart. Unit tests judge what the simulator has not killed:
those that execute the mutant, `-x`, the fastest first; tests of the simulator and its golden traces are none,
nor are those that need root.

The exit status is 1 below the bar: of the mutants that are not proven equivalent (`equivalents.toml`), and
that a seed executes, the simulator alone kills 85 %; both together 97 % of all that are not equivalent; unit
tests 95 % of those that no seed executes; at most 10 % are equivalent. A mutant that cannot be imported, that
crashes the run, or that takes too long for one seed is killed, and the report says how.

Why no other tool does this: cosmic-ray and mutmut judge a mutant by a command on a changed source tree,
one process for each, and have no operators for awaits, preconditions and caches. Here 200 seeds are played in
a fork of a warm process, with one module changed as it is imported (`overlay`); what is left of such a tool
is the operators, which are short. Coverage is measured by coverage.py.
"""
