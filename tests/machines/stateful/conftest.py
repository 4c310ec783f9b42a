"""Stateful sets run on machines of namespaces: what machines with a kernel of their own lack is nothing to
them."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session", autouse=True)
def _possible() -> None:
    """In the place of the one of all machines."""
