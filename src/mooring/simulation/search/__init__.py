"""Looks for violations in many runs: random, single faults, bounded; makes them small, stores and reports
them.

`mutants/` has the known bugs that a search must find.
"""
