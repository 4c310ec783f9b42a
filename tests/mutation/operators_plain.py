"""Operators that any code has places for: conditions, constants, statements."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.mutation.left_out import JUMPS, is_docstring, tells
from tests.mutation.source import Change, Function, Source

COMPARED = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip
"""What each comparison becomes."""
OTHER_NAMES = {"any": "all", "all": "any", "min": "max", "max": "min"}
SET_OPERATIONS: dict[type[ast.operator], str] = {ast.BitOr: "&", ast.BitAnd: "|"}
SECONDS = re.compile(r"_s$|_S$|[Ss]econds")
NUMBERS = re.compile(r"(_s|_S|_at|_time|now|time|since|count|size|number|left|before)$|^(len|sum|now|time)$")
"""Names of what is subtracted as a number."""


def negated_conditions(source: Source) -> Iterator[Change]:
    """`if x` becomes `if not (x)`; also of `while`, of a choice within an expression, and of a
    comprehension."""
    for test in _tests(source):
        if isinstance(test, ast.Constant):
            continue  # `while True` is a constant's
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            yield source.replaced("negate-condition", test, f"({source.text_of(test.operand)})")
        else:
            yield source.replaced("negate-condition", test, f"not ({source.text_of(test)})")


def _tests(source: Source) -> Iterator[ast.expr]:
    for node in source.nodes(ast.If, ast.While, ast.IfExp, ast.comprehension, ast.match_case):
        match node:
            case ast.comprehension(ifs=tests):
                yield from tests
            case ast.match_case(guard=guard):
                if guard is not None:
                    yield guard
            case _:
                yield node.test


def dropped_operands(source: Source) -> Iterator[Change]:
    """`a and b` becomes `a`, or `b`."""
    for node in source.nodes(ast.BoolOp):
        for dropped in node.values:
            left = [each for each in node.values if each is not dropped]
            rest = left[0] if len(left) == 1 else ast.BoolOp(node.op, left)
            text = ast.unparse(rest)
            loose = isinstance(rest, (ast.BoolOp, ast.IfExp, ast.Lambda))
            yield source.replaced("drop-operand", node, f"({text})" if loose else text, felt=dropped)


def dropped_guards(source: Source) -> Iterator[Change]:
    """`if x: return` (or continue, raise, break) does nothing. It is felt where it would have left."""
    for node in source.nodes(ast.If):
        if not node.orelse and isinstance(node.body[-1], JUMPS):
            yield source.block_replaced("drop-guard", node.body, "pass")


def compared_otherwise(source: Source) -> Iterator[Change]:
    """The boundary moves by one, or the comparison is turned round where it is no condition by itself."""
    conditions = {*_tests(source)}
    for node in source.nodes(ast.Compare):
        for at, operator in enumerate(node.ops):
            ordered = isinstance(operator, (ast.Lt, ast.LtE, ast.Gt, ast.GtE))
            if not ordered and len(node.ops) == 1 and node in conditions:
                continue  # the same as the negated condition
            start = source.range_of(node.left if at == 0 else node.comparators[at - 1])[1]
            end = source.range_of(node.comparators[at])[0]
            between = source.bytes[start:end].decode()
            word = ("boundary" if ordered else "compare-otherwise", COMPARED[type(operator)])
            text = _with_operator(between, word[1])
            yield Change(word[0], start, end, text, (source.line_at(start), node.comparators[at].lineno))


def _with_operator(between: str, other: str) -> str:
    """What stands between two operands has brackets, and one comparison."""
    return re.sub(r"<=|>=|==|!=|<|>|\bis\s+not\b|\bnot\s+in\b|\bis\b|\bin\b", other, between, count=1)


def changed_numbers(source: Source) -> Iterator[Change]:
    """A number is one more or one less; seconds are doubled, or none."""
    for node in source.nodes(ast.Constant):
        value = node.value
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            continue
        if isinstance(value, float) or SECONDS.search(_what_it_is(source, node)):
            others = [value * 2, 0] if value else [1]
        else:
            others = [value + 1, value - 1]
        for other in others:
            text = repr(float(other) if isinstance(value, float) else other)
            yield source.replaced("constant", node, f"({text})" if other < 0 else text)


def _what_it_is(source: Source, node: ast.AST) -> str:
    """The name that a constant is given to: a variable's, a parameter's, a keyword's."""
    above = source.parents[node]
    match above:
        case ast.Assign(targets=[target, *_]) | ast.AnnAssign(target=target) | ast.AugAssign(target=target):
            return ast.unparse(target)
        case ast.keyword(arg=str(name)):
            return name
        case ast.arguments():
            defaults = [*zip(reversed(above.args), reversed(above.defaults), strict=False)]
            pairs = [*defaults, *zip(above.kwonlyargs, above.kw_defaults, strict=True)]
            return next(argument.arg for argument, default in pairs if default is node)
        case ast.Call():
            return ast.unparse(above.func)
        case _:
            return ""


def turned_booleans(source: Source) -> Iterator[Change]:
    """True becomes False, and the other way round."""
    for node in source.nodes(ast.Constant):
        if isinstance(node.value, bool):
            yield source.replaced("boolean", node, repr(not node.value))


def other_quantifiers(source: Source) -> Iterator[Change]:
    """any and all, min and max."""
    for node in source.nodes(ast.Call):
        if isinstance(node.func, ast.Name) and node.func.id in OTHER_NAMES:
            yield source.replaced("quantifier", node.func, OTHER_NAMES[node.func.id], felt=node)


def other_set_operations(source: Source) -> Iterator[Change]:
    """`|` and `&`; a difference of numbers becomes their sum, one of sets what they have in common."""
    for node in source.nodes(ast.BinOp):
        if source.enclosing(node, ast.FunctionDef, ast.AsyncFunctionDef) is None:
            continue  # a type's
        other = SET_OPERATIONS.get(type(node.op))
        if isinstance(node.op, ast.Sub):
            other = "+" if _is_number(node.left) or _is_number(node.right) else "&"
        if other is not None:
            start, end = source.range_of(node.left)[1], source.range_of(node.right)[0]
            between = re.sub(r"[-|&]", other, source.bytes[start:end].decode(), count=1)
            yield Change("arithmetic" if other == "+" else "set-operation", start, end, between, _lines(node))


def _is_number(node: ast.expr) -> bool:
    match node:
        case ast.Constant():
            return True
        case ast.Call(func=called):
            return _is_number(called)
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return bool(NUMBERS.search(name))
        case ast.BinOp():
            return _is_number(node.left) or _is_number(node.right)
        case _:
            return False


def _lines(node: ast.expr) -> tuple[int, int]:
    return node.lineno, node.end_lineno or node.lineno


def early_returns(source: Source) -> Iterator[Change]:
    """A function does nothing: it returns None at once, and a generator yields nothing."""
    for node in source.nodes(ast.FunctionDef, ast.AsyncFunctionDef):
        body = node.body[1:] if is_docstring(node.body[0]) else node.body
        if node.name in ("__init__", "__post_init__") or _does_nothing(body):
            continue
        word = "return" if _yields(node) else "return None"
        first = body[0]
        if getattr(first, "decorator_list", []):
            continue
        start = source.range_of(first)[0]
        text = f"{word}\n{' ' * first.col_offset}"
        yield Change("early-return", start, start, text, (first.lineno, body[-1].end_lineno or 0))


def _does_nothing(body: list[ast.stmt]) -> bool:
    """It raises at once, returns a constant, only tells, or is declared alone, as in a Protocol."""
    if not body or all(tells(each) or isinstance(each, ast.Pass) or is_docstring(each) for each in body):
        return True
    first = body[0]
    if isinstance(first, ast.Return) and len(body) == 1:
        return first.value is None or (isinstance(first.value, ast.Constant) and first.value.value is None)
    return isinstance(first, ast.Raise)


def _yields(function: Function) -> bool:
    left: list[ast.AST] = [*function.body]
    while left:
        node = left.pop()
        if isinstance(node, (ast.Yield, ast.YieldFrom)):
            return True
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            left += ast.iter_child_nodes(node)
    return False


def dropped_statements(source: Source) -> Iterator[Change]:
    """A call is not made (`self._known.discard(name)`), or what an object remembers is not stored."""
    for node in source.nodes(ast.Expr):
        if isinstance(node.value, ast.Call) and "super()" not in source.text_of(node):
            yield source.replaced("drop-call", node, "pass")
    for node in source.nodes(ast.Assign, ast.AugAssign, ast.Delete):
        function = source.enclosing(node, ast.FunctionDef, ast.AsyncFunctionDef)
        if function is None or function.name in ("__init__", "__post_init__"):
            continue
        targets = [node.target] if isinstance(node, ast.AugAssign) else node.targets
        if isinstance(node, ast.AugAssign) or all(
            isinstance(each, (ast.Attribute, ast.Subscript)) for each in targets
        ):
            yield source.replaced("drop-assignment", node, "pass")
