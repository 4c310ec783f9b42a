"""What the linter cannot hold of the house's dialect (docs/contributing.md, "The rules")."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
IMPERATIVES = re.compile(
    r"(Accept|Add|Answer|Apply|Ask|Bind|Build|Call|Carry|Check|Clear|Close|Compute|Create|Decide|Delete|Drop|End|Ensure"
    r"|Evict|Fetch|Fill|Finish|Forget|Get|Give|Keep|Load|Make|Merge|Move|Note|Open|Parse|Patch|Print|Raise"
    r"|Record|Refuse|Register|Release|Remove|Replace|Return|Save|Say|Send|Serve|Shorten|Show|Shut|Skip|Start|Stop"
    r"|Store|Take|Tell|Try|Undo|Update|Use|Wait|Wake|Write|Yield)\b"
)
ACTORS = frozenset({"somebody", "someone", "nobody", "anybody", "whoever"})


def docstrings() -> Iterator[tuple[str, str]]:
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
                text = ast.get_docstring(node)
                line = 1 if isinstance(node, ast.Module) else node.lineno
                if text:
                    yield f"{path.relative_to(ROOT)}:{line}", text


def test_a_docstring_says_what_a_function_does_and_commands_nothing():
    commanding = [where for where, text in docstrings() if IMPERATIVES.match(text)]
    assert not commanding, 'begin with the third person ("Returns", "Stores"): ' + ", ".join(commanding)


def test_in_code_and_pages_an_actor_has_a_name():
    pages = [*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")]
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in sorted(pages)
        if path.name != "CHANGELOG.md"
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if not ACTORS.isdisjoint(re.findall(r"[\w']+", line.lower()))
    ]
    assert not found, "say who it is: " + ", ".join(found)


def test_modules_do_not_import_in_circles():
    modules = {_name(path): path for path in (ROOT / "src/mooring").rglob("*.py")}
    imports = {name: _imports(path, modules) - {name} for name, path in modules.items()}
    while free := [name for name, needs in imports.items() if not needs & imports.keys()]:
        for name in free:
            del imports[name]
    assert not imports, f"these import each other, or what does: {sorted(imports)}"


def _name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__")


def _imports(path: Path, modules: dict[str, Path]) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = (f"{node.module}.{each.name}" for each in node.names)
            found |= {name if name in modules else node.module for name in names}
        elif isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
    return found & modules.keys()
