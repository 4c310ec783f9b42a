"""Patches of each type."""

from tests.differential.steps import Step

STEPS: list[Step] = []
