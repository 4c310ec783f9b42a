"""Operators for what reaches other parts: awaited calls, their order, preconditions, live reads, errors."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise

from tests.mutation.left_out import pauses, tells
from tests.mutation.source import Change, Source, lines_of

PRECONDITIONS = {"uid", "resource_version", "resourceVersion"}
"""Keywords of the client's methods, and keys of what they send, that refuse a write upon something older."""
READS = ("find", "get")


def swapped_awaits(source: Source) -> Iterator[Change]:
    """Two awaited statements that follow one another change places, unless the second needs what the first
    has given."""
    for block in source.bodies():
        for one, other in pairwise(block):
            if not (_awaits(one) and _awaits(other)) or _given(one) & _names(other):
                continue
            (start, middle), (again, end) = source.range_of(one), source.range_of(other)
            between = source.bytes[middle:again].decode()
            text = source.text_of(other) + between + source.text_of(one)
            yield Change("swap-awaits", start, end, text, lines_of(one))


def _awaits(node: ast.stmt) -> bool:
    """Whether a plain statement waits for an answer."""
    if isinstance(node, (ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign)) and not tells(node):
        return any(isinstance(each, ast.Await) for each in ast.walk(node))
    return False


def _given(node: ast.stmt) -> set[str]:
    return {
        each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
    }


def _names(node: ast.stmt) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def dropped_awaits(source: Source) -> Iterator[Change]:
    """What is awaited for its effect alone is not done."""
    for node in source.nodes(ast.Expr):
        if isinstance(node.value, ast.Await):
            yield source.replaced("drop-await", node, "pass")


def dropped_preconditions(source: Source) -> Iterator[Change]:
    """A write carries no uid, or no resourceVersion, of what it was computed from."""
    for node in source.nodes(ast.Call):
        if any(each.arg in PRECONDITIONS for each in node.keywords):
            for dropped in (each for each in node.keywords if each.arg in PRECONDITIONS):
                left = [each for each in node.keywords if each is not dropped]
                text = ast.unparse(ast.Call(node.func, node.args, left))
                yield source.replaced("drop-precondition", node, text, felt=node)
        elif _method(node) == "revise" and not any(each.arg == "any_version" for each in node.keywords):
            keywords = [*node.keywords, ast.keyword("any_version", ast.Constant(True))]
            text = ast.unparse(ast.Call(node.func, node.args, keywords))
            yield source.replaced("drop-precondition", node, text)
    for node in source.nodes(ast.Dict):
        for at, key in enumerate(node.keys):
            if isinstance(key, ast.Constant) and key.value in PRECONDITIONS:
                keys, values = node.keys[:at] + node.keys[at + 1 :], node.values[:at] + node.values[at + 1 :]
                yield source.replaced(
                    "drop-precondition", node, ast.unparse(ast.Dict(keys, values)), felt=key
                )


def _method(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else ""


def cache_reads(source: Source) -> Iterator[Change]:
    """What is read live is taken from the cache of that kind, where the class has one."""
    for node in source.nodes(ast.Await):
        call = node.value
        owner = source.enclosing(node, ast.ClassDef)
        if not isinstance(call, ast.Call) or owner is None or not call.args or not _is_client(call.func):
            continue
        cache = _caches(owner).get(ast.unparse(call.args[0]))
        if cache is None:
            continue
        above = source.parents[node]
        if _method(call) in READS and len(call.args) > 1:
            key = ast.unparse(call.args[1])
            if len(call.args) > 2:
                key = f'f"{{{ast.unparse(call.args[2])}}}/{{{key}}}"'
            yield source.replaced("cache-read", node, f"self.{cache}.get({key})")
        elif _method(call) == "list" and isinstance(above, ast.Attribute) and above.attr == "items":
            yield source.replaced("cache-read", above, f"self.{cache}.items()")


def _is_client(called: ast.expr) -> bool:
    return isinstance(called, ast.Attribute) and ast.unparse(called.value) in ("self.client", "self._client")


def _caches(owner: ast.ClassDef) -> dict[str, str]:
    """The kinds of which a class has a cache: it watches them, or is given an informer of them."""
    given = {
        argument.arg: argument.annotation.slice
        for node in ast.walk(owner)
        if isinstance(node, ast.FunctionDef) and node.name == "__init__"
        for argument in (*node.args.args, *node.args.kwonlyargs)
        if isinstance(argument.annotation, ast.Subscript)
        and ast.unparse(argument.annotation.value) == "Informer"
    }
    found: dict[str, str] = {}
    for node in ast.walk(owner):
        match node:
            case ast.Assign(
                targets=[ast.Attribute(attr=name)],
                value=ast.Call(func=ast.Attribute(attr="watch"), args=[kind, *_]),
            ):
                found[ast.unparse(kind)] = name
            case ast.Assign(targets=[ast.Attribute(attr=name)], value=ast.Name(id=argument)) if (
                argument in given
            ):
                found[ast.unparse(given[argument])] = name
            case _:
                pass
    return found


def dropped_finally(source: Source) -> Iterator[Change]:
    """What has to be done in any case is not done."""
    for node in source.nodes(ast.Try):
        if node.finalbody and not all(tells(each) for each in node.finalbody):
            yield source.block_replaced("drop-finally", node.finalbody, "pass")


def _ends(source: Source, handler: ast.ExceptHandler) -> bool:
    """Whether all that the handler does is to return None, where the function would end all the same."""
    last, attempt = handler.body[-1], source.parents[handler]
    if len(handler.body) > 1 or not isinstance(last, ast.Return):
        return False
    function = source.parents[attempt]
    is_none = last.value is None or (isinstance(last.value, ast.Constant) and last.value.value is None)
    return is_none and attempt is getattr(function, "body", [None])[-1] and hasattr(function, "args")


def swallowed_errors(source: Source) -> Iterator[Change]:
    """A handler does nothing; or an awaited call's error goes unnoticed."""
    for node in source.nodes(ast.ExceptHandler):
        if not all(isinstance(each, ast.Pass) or tells(each) for each in node.body) and not _ends(
            source, node
        ):
            yield source.block_replaced("swallow-error", node.body, "pass")
    for node in source.nodes(ast.Expr):
        if isinstance(node.value, ast.Await) and not pauses(node.value):
            text = f'with __import__("contextlib").suppress(Exception): {source.text_of(node)}'
            yield source.replaced("swallow-call", node, text)
