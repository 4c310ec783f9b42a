"""What pages, code and tests refer to: patterns of references, and what there is."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("**/*.md"), *(ROOT / "deploy").glob("**/*.md")])
MODULE = re.compile(r"`([\w/]+\.py)(?::([\w.]+))?`")
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
OTHER = re.compile(r"`((?:tests|docs|examples)/[\w./-]+)`")
FILE = re.compile(
    r"(?:^|[\s`(])((?:tests|docs|examples|scripts|benchmarks|src|deploy(?=/[\w/-]+\.))/[\w./*-]*[\w*])"
)
LINK = re.compile(r"\]\((?!https?://|mailto:)([^)#\s]*)(?:#([\w-]+))?\)")


@cache
def names(path: Path) -> frozenset[str]:
    """Every top-level name of a module, and every member of its classes as Class.member."""
    found: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        found |= _named(node)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{member}" for each in node.body for member in _named(each)}
    return frozenset(found)


def _named(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    targets = (
        node.targets
        if isinstance(node, ast.Assign)
        else [node.target]
        if isinstance(node, ast.AnnAssign)
        else []
    )
    return {target.id for target in targets if isinstance(target, ast.Name)}


@cache
def file_names() -> frozenset[str]:
    return frozenset(
        path.name for folder in ("src", "tests", "examples") for path in (ROOT / folder).rglob("*.py")
    )


def modules(name: str) -> list[Path]:
    """The files that a name like `kube/client.py` can mean: below the package, or below the repository."""
    return [path for path in (ROOT / "src" / "mooring" / name, ROOT / name) if path.is_file()]


@cache
def anchors(path: Path) -> frozenset[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", each).lower() for each in headings]
    return frozenset(re.sub(r"[^\w\- ]", "", each).replace(" ", "-") for each in plain)
