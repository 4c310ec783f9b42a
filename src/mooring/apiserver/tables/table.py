"""Server-side tables: what `kubectl get` prints, made from the columns of `columns`. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from mooring.apiserver.errors import Obj
from mooring.apiserver.objects.kinds import Kind
from mooring.apiserver.tables.columns import Column, columns_of
from mooring.apiserver.work_limit import spend


def table(kind: Kind, objects: Sequence[Obj], version: int, now: datetime, rows_hold: str) -> Obj:
    """A `meta.k8s.io/v1` Table of objects. `rows_hold` is the includeObject parameter: None, Metadata or
    Object."""
    columns = columns_of(kind)
    definitions = [
        {
            "name": column.name,
            "type": column.type,
            "format": "name" if column.name == "Name" else "",
            "description": column.description,
            "priority": 1 if column.wide else 0,
        }
        for column in columns
    ]
    spend(len(objects) * 20)
    rows = [
        {"cells": [_cell(column, obj, now) for column in columns], **_held(obj, rows_hold)} for obj in objects
    ]
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": str(version)},
        "columnDefinitions": definitions,
        "rows": rows,
    }


def _cell(column: Column, obj: Obj, now: datetime) -> Any:
    """A field that does not have its form is shown as such, so that one odd object never hides the others."""
    try:
        return column.cell(obj, now)
    except (ArithmeticError, AttributeError, TypeError, ValueError):
        return "<invalid>"


def _held(obj: Obj, rows_hold: str) -> dict[str, Any]:
    if rows_hold == "None":
        return {}
    if rows_hold == "Object":
        return {"object": obj}
    held = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}
    return {"object": held}
