"""What the code declares: reasons, events and metrics, read from its syntax. Nothing of it is imported.

A reason is declared where its code is written down: in `Reason("Code", message)`, in an error with a `reason`, in
`recorder.event(object, "Warning", "Code", message)`, or in a call of a function that hands it on to one of these.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "mooring"
NOT_PRODUCTION = {"simulation", "testing"}
TYPES = ("Warning", "Normal")
METRICS = {
    "Counter": "counter",
    "Gauge": "gauge",
    "Histogram": "histogram",
    "GaugeMetricFamily": "gauge",
    "CounterMetricFamily": "counter",
    "Metric": "counter",
    "CallMetrics": "histogram",
}
TOTALS = {"Counter", "CounterMetricFamily"}
"""Which are scraped under a name that ends in `_total`."""
NAMED_SECOND = {"CallMetrics"}
"""Whose name is the second argument, and whose text and labels are those of `csi/metrics.py`."""
_CODE = re.compile(r"[A-Za-z][A-Za-z-]*")
Function = ast.FunctionDef | ast.AsyncFunctionDef
Scope = tuple[ast.AST, ...]


@dataclass
class Declared:
    """A code: `says` are its messages, with `{...}` for what differs; `where` the modules that have it; `types` those
    of its events."""

    code: str
    says: list[str] = field(default_factory=list)
    where: list[str] = field(default_factory=list)
    types: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Metric:
    name: str
    kind: str
    about: str
    labels: tuple[str, ...]
    where: str


@dataclass(frozen=True)
class _Hands:
    """A function whose parameter becomes a code: at which place of its call it is, and by which name."""

    place: int
    name: str


def reasons() -> dict[str, Declared]:
    """All codes, by themselves."""
    found: dict[str, Declared] = {}
    for module, tree in modules().items():
        for call, scope in _calls(tree, ()):
            for code_at, message_at, type_ in _codes_of(call, module):
                for code in _texts(code_at, scope, module):
                    if not _CODE.fullmatch(code):
                        continue
                    declared = found.setdefault(code, Declared(code))
                    says = _template(message_at, scope) if message_at is not None else ""
                    if says and not _CODE.fullmatch(says) and says not in declared.says:
                        declared.says.append(says)
                    if module not in declared.where:
                        declared.where.append(module)
                    if type_:
                        declared.types.add(type_)
    return dict(sorted(found.items(), key=lambda each: (each[0].lower(), each[0])))


def metrics() -> list[Metric]:
    """All metrics, by name."""
    found: dict[str, Metric] = {}
    for module, tree in modules().items():
        for call, scope in _calls(tree, ()):
            kind = _name(call.func)
            if kind not in METRICS or len(call.args) < 2:
                continue
            name_at, text_at = call.args[:2] if kind not in NAMED_SECOND else (call.args[1], None)
            name = _written(name_at, scope)
            if name and kind in TOTALS:
                name = f"{name.removesuffix('_total')}_total"
            if name and " " not in name:
                about = _written(text_at, scope) if text_at is not None else ""
                found[name] = Metric(name, METRICS[kind], about, _labels(call, tree), module)
    return [found[name] for name in sorted(found)]


@cache
def modules() -> Mapping[str, ast.Module]:
    """The production code, by path below src/mooring."""
    return {
        str(path.relative_to(SOURCE)): ast.parse(path.read_text())
        for path in sorted(SOURCE.rglob("*.py"))
        if not NOT_PRODUCTION & set(path.relative_to(SOURCE).parts) and not path.name.endswith("_pb2.py")
    }


def _calls(node: ast.AST, scope: Scope) -> Iterator[tuple[ast.Call, Scope]]:
    """All calls below a node, each with the functions around it, the innermost last."""
    for child in ast.iter_child_nodes(node):
        inner = (*scope, child) if isinstance(child, Function) else scope
        if isinstance(child, ast.Call):
            yield child, scope
        yield from _calls(child, inner)


def _codes_of(call: ast.Call, module: str) -> Iterator[tuple[ast.expr, ast.expr | None, str]]:
    """The expressions of a call that are a code, each with its message's and the type of its event."""
    name = _name(call.func)
    if name == "Reason":
        code, message = _argument(call, 0, "code"), _argument(call, 1, "message")
        if code is not None:
            yield code, message, ""
    yield from _of_event(call)
    for hands in (*_functions(module).get(name, ()), *_errors().get(name, ())):
        code = _argument(call, hands.place, hands.name)
        if code is not None:
            yield code, _argument(call, hands.place + 1, "message"), ""


def _of_event(call: ast.Call) -> Iterator[tuple[ast.expr, ast.expr | None, str]]:
    if not isinstance(call.func, ast.Attribute):
        return
    for place, given in enumerate(call.args[:-1]):
        if isinstance(given, ast.Constant) and given.value in TYPES:
            code = call.args[place + 1]
            message = call.args[place + 2] if len(call.args) > place + 2 else None
            if isinstance(code, ast.Call) and _name(code.func) == "Reason" and code.args:
                code, message = code.args[0], _argument(code, 1, "message")
            yield code, message, str(given.value)


@cache
def _functions(module: str) -> Mapping[str, tuple[_Hands, ...]]:
    """The functions of a module that hand a parameter on as a code."""
    found: dict[str, tuple[_Hands, ...]] = {}
    for node in ast.walk(modules()[module]):
        if isinstance(node, Function):
            names = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)]
            bound = names[1:] if names[:1] == ["self"] else names
            known = [*bound, *(argument.arg for argument in node.args.kwonlyargs)]
            handed = {each for each in _handed(node) if each in known}
            found[node.name] = tuple(
                _Hands(bound.index(each) if each in bound else 1 << 10, each) for each in sorted(handed)
            )
    return {name: hands for name, hands in found.items() if hands}


def _handed(function: Function) -> Iterator[str]:
    for call in ast.walk(function):
        if isinstance(call, ast.Call):
            codes = [_argument(call, 0, "code")] if _name(call.func) == "Reason" else [each[0] for each in _of_event(call)]
            yield from (code.id for code in codes if isinstance(code, ast.Name))


@cache
def _errors() -> Mapping[str, tuple[_Hands, ...]]:
    """The exceptions whose `reason` is given when they are made, and the functions that make one."""
    found: dict[str, tuple[_Hands, ...]] = {}
    for tree in modules().values():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                for made in node.body:
                    if isinstance(made, Function) and made.name == "__init__" and _keeps_reason(made):
                        names = [argument.arg for argument in made.args.args][1:]
                        found[node.name] = (_Hands(names.index("reason"), "reason"),)
    return found


def _keeps_reason(made: Function) -> bool:
    bases = "self.reason = reason" in ast.unparse(made)
    return bases and any(argument.arg == "reason" for argument in made.args.args)


def _argument(call: ast.Call, place: int, name: str) -> ast.expr | None:
    if place < len(call.args):
        return call.args[place]
    return next((each.value for each in call.keywords if each.arg == name), None)


def _texts(node: ast.expr, scope: Scope, module: str) -> Iterator[str]:
    """What the expression can be, as far as it is written down."""
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.IfExp(body=body, orelse=orelse):
            yield from (*_texts(body, scope, module), *_texts(orelse, scope, module))
        case ast.BoolOp(values=values):
            for each in values:
                yield from _texts(each, scope, module)
        case ast.Name(id=name):
            yield from _of_name(name, scope, module)


def _of_name(name: str, scope: Scope, module: str) -> Iterator[str]:
    """A constant of the module, of another one, or a variable of the function."""
    for tree in (*reversed(scope), modules()[module]):
        assigned = list(_assigned(name, tree))
        if assigned:
            for value in assigned:
                if not (isinstance(value, ast.Name) and value.id == name):
                    yield from _texts(value, scope, module)
            return
    for node in ast.walk(modules()[module]):
        if isinstance(node, ast.ImportFrom) and node.module and any(each.name == name for each in node.names):
            path = node.module.removeprefix("mooring.").replace(".", "/")
            for there in (f"{path}.py", f"{path}/__init__.py"):
                if there in modules() and there != module:
                    yield from _of_name(name, (), there)


def _assigned(name: str, tree: ast.AST) -> Iterator[ast.expr]:
    nodes = tree.body if isinstance(tree, ast.Module) else ast.walk(tree)
    for node in nodes:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        for target in targets:
            if isinstance(target, ast.Name) and target.id == name and node.value is not None:
                yield node.value
            elif isinstance(target, ast.Tuple):
                yield from _unpacked(name, target, node.value)


def _unpacked(name: str, target: ast.Tuple, value: ast.expr) -> Iterator[ast.expr]:
    places = [place for place, each in enumerate(target.elts) if isinstance(each, ast.Name) and each.id == name]
    values = [value.body, value.orelse] if isinstance(value, ast.IfExp) else [value]
    for each in values:
        if isinstance(each, ast.Tuple) and len(each.elts) == len(target.elts):
            yield from (each.elts[place] for place in places)


def _template(node: ast.expr, scope: Scope) -> str:
    """A message, with `{...}` where it differs; "" if nothing of it is written down here."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            text = "".join(each.value if isinstance(each, ast.Constant) else "{...}" for each in values)
            return "" if text.replace("{...}", "").strip(" :;,") == "" else text
        case ast.Name(id=name) if scope:
            written = [value for value in _assigned(name, scope[-1]) if not isinstance(value, ast.Name)]
            return _template(written[0], scope) if len(written) == 1 else ""
    return ""


def _written(node: ast.expr, scope: Scope) -> str:
    """A text, with variables as they were last set before it; `{...}` for those that are not written down."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            parts = [each.value if isinstance(each, ast.FormattedValue) else each for each in values]
            return "".join(_written(part, scope) or "{...}" for part in parts)
        case ast.Name(id=name) if scope:
            before = [value for value in _assigned(name, scope[-1]) if value.lineno <= node.lineno]
            return _written(max(before, key=lambda value: value.lineno), scope) if before else ""
    return ""


def _labels(call: ast.Call, tree: ast.Module) -> tuple[str, ...]:
    given = _argument(call, 2, "labels")
    given = next((each.value for each in call.keywords if each.arg == "labelnames"), given)
    if isinstance(given, ast.Name):
        given = next(_assigned(given.id, tree), given)
    if isinstance(given, ast.List | ast.Tuple):
        return tuple(each.value for each in given.elts if isinstance(each, ast.Constant))
    return ()


def _name(function: ast.expr) -> str:
    return function.id if isinstance(function, ast.Name) else function.attr if isinstance(function, ast.Attribute) else ""
