"""What is never mutated: what only tells of what happens, and what only readers and type checkers see.

A changed log line is no bug that a test or an invariant should find. What tells is known by its form (calls
of loggers, metrics and recorders of Kubernetes Events, texts, what a `raise` says), or is listed here with
its place.
"""

from __future__ import annotations

import ast

MODULES = {"metrics.py", "events.py", "foreign_writes.py", "observation.py", "pod_reports.py"}
"""Modules of rooms that count, tell users, or log, and nothing else."""

FUNCTIONS = {
    "_advice",  # ... of a store's error
    "_not_answered",  # a storage that is asked what is attached
    "_report_force_detach",
    "_report_foreign_write",
    "_send",
    "_send_events",
    "__repr__",
    "__str__",
}
"""Functions that do nothing else."""

FIELDS = {"normal"}
"""What decisions carry for those who read Events alone: of which type one is."""

TOLD_TO = {"log", "_log", "logger", "metrics", "_metrics", "recorder", "_recorder", "warnings"}
"""Names of what is told: `self.log.info(...)`, `metrics.done(...)`, `self.recorder.event(...)`."""

STATED = {"strict"}
"""Keywords that assert what always holds, as `assert` does."""

NEVER = "assert_never"
"""The function by which type checkers prove that a place is never reached."""

JUMPS = (ast.Return, ast.Continue, ast.Raise, ast.Break)


def tells(node: ast.AST) -> bool:
    """Whether the node is a call of a logger, a metric or a recorder, or a statement that is only that."""
    if isinstance(node, (ast.Expr, ast.Await)):
        return tells(node.value)
    if not isinstance(node, ast.Call):
        return False
    called: ast.expr = node.func
    while isinstance(called, (ast.Attribute, ast.Call)):
        if isinstance(called, ast.Attribute) and called.attr in TOLD_TO:
            return True
        called = called.value if isinstance(called, ast.Attribute) else called.func
    return isinstance(called, ast.Name) and called.id in TOLD_TO


def pauses(node: ast.Await) -> bool:
    """Whether it is `asyncio.sleep` that is awaited: that has no errors of its own."""
    called = node.value.func if isinstance(node.value, ast.Call) else None
    return isinstance(called, (ast.Name, ast.Attribute)) and ast.unparse(called).split(".")[-1] == "sleep"


def is_never(node: ast.AST) -> bool:
    """Whether a statement says that its place is never reached."""
    call = node.value if isinstance(node, ast.Expr) else None
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == NEVER


def is_text(node: ast.AST) -> bool:
    """Whether an expression is made for readers: an f-string, words with a blank, or a choice or a sum of
    such."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and " " in node.value
    if isinstance(node, ast.IfExp):
        return is_text(node.body) or is_text(node.orelse)
    if isinstance(node, ast.BinOp):
        return is_text(node.left) or is_text(node.right)
    return isinstance(node, ast.JoinedStr)


def is_docstring(node: ast.AST) -> bool:
    """Also texts behind attributes and constants, which say what these mean."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def children(node: ast.AST) -> list[ast.AST]:
    """What may be mutated below a node."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        if node.name in FUNCTIONS:
            return []
        below: list[ast.AST] = [
            *node.args.defaults,
            *(each for each in node.args.kw_defaults if each),
            *node.body,
        ]
    elif isinstance(node, ast.ClassDef):
        below = [*node.body]
    elif isinstance(node, ast.AnnAssign):
        told = isinstance(node.target, ast.Name) and node.target.id in FIELDS
        below = [node.value] if node.value is not None and not told else []
    elif isinstance(node, (ast.Raise, ast.Assert, ast.Import, ast.ImportFrom)):
        below = []
    elif isinstance(node, (ast.With, ast.AsyncWith)):
        below = [*(item.context_expr for item in node.items), *node.body]
    elif isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        below = []
    elif isinstance(node, ast.Call):
        below = [node.func, *node.args, *(each for each in node.keywords if each.arg not in STATED | FIELDS)]
    else:
        below = [*ast.iter_child_nodes(node)]
    return [
        each for each in below if not (tells(each) or is_never(each) or is_text(each) or is_docstring(each))
    ]
