"""JSON merge patch, RFC 7396."""

from __future__ import annotations

from typing import Any, cast

from mooring.apiserver.errors import Obj


def merge_patch(target: Any, patch: Any) -> Any:
    """`target` with `patch` merged in: objects merge by key, null removes, anything else replaces."""
    if not isinstance(patch, dict):
        return patch
    merged: Obj = dict(cast(Obj, target)) if isinstance(target, dict) else {}
    for key, value in cast(Obj, patch).items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged
