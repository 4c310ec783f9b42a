"""Server-side tables: the columns that `kubectl get` shows, for each kind. Pure."""

from collections.abc import Sequence
from datetime import datetime

from mooring.apiserver.errors import Obj
from mooring.apiserver.kinds import Kind
from mooring.apiserver.times import parse


def table(kind: Kind, objects: Sequence[Obj], version: int, now: datetime, rows_hold: str) -> Obj:
    columns = [{"name": "Name", "type": "string", "format": "name", "description": "", "priority": 0}]
    columns += [{"name": "Age", "type": "string", "format": "", "description": "", "priority": 0}]
    return {
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": str(version)},
        "columnDefinitions": columns,
        "rows": [{"cells": [o["metadata"]["name"], str(now - parse(o["metadata"]["creationTimestamp"]))],
                  "object": {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": o["metadata"]}}
                 for o in objects],
    }  # fmt: skip
