"""What every controller's `decide.py` returns: an action and the reason for it.

Each `decide` module has its own `Action` enum. Where carrying an action out takes more than the action itself
(a node, a volume, seconds to wait), the module derives a class with further fields. The code that carries
decisions out matches on `action` and ends with `typing.assert_never`, so that the type checker finds an
action that nothing carries out.
"""

from __future__ import annotations

from enum import Enum
from typing import Generic, TypeVar

import msgspec

from mooring.kube.reason import Reason

A = TypeVar("A", bound=Enum)


class Decision(msgspec.Struct, Generic[A], frozen=True, gc=False):
    """What to do, and why. Immutable; equal if all fields are equal."""

    action: A
    reason: Reason
