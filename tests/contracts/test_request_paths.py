"""The paths of requests to an API server are made in one place, which escapes what they are made of."""

from __future__ import annotations

import ast
from pathlib import Path

import mooring

SOURCE = Path(mooring.__file__).parent
ONE_PLACE = SOURCE / "kube" / "objects" / "meta.py"
SERVER = SOURCE / "apiserver"


def begins_like_a_path(node: ast.AST) -> bool:
    if isinstance(node, ast.JoinedStr):
        first = node.values[0] if node.values else None
        return isinstance(first, ast.Constant) and str(first.value).startswith(("/api/", "/apis/"))
    if isinstance(node, ast.BinOp):
        return isinstance(node.left, ast.Constant) and str(node.left.value).startswith(("/api/", "/apis/"))
    return False


def test_a_path_with_a_name_in_it_is_made_by_resource_path_only():
    found = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path in SOURCE.rglob("*.py")
        if path != ONE_PLACE and SERVER not in path.parents
        for node in ast.walk(ast.parse(path.read_text()))
        if begins_like_a_path(node)
    ]
    assert found == [], "use Resource.path or version_path"
