r"""Label and field selectors: parse, match, print.

Pure. Grammar: `key`, `!key`, `key=value`, `key==value`, `key!=value`, `key in (a,b)`, `key notin (a,b)`, and
for node affinity `key>1`, `key<1`, joined by commas (all must hold). Field selectors know `=`, `==` and `!=`,
with `\` before a literal comma, equals sign or backslash.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import msgspec

Operator: TypeAlias = Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
_OPERATORS: tuple[Operator, ...] = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")

_NAME = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_KEY = re.compile(rf"(?:[a-z0-9](?:[-a-z0-9.]{{0,251}}[a-z0-9])?/)?{_NAME}")
_VALUE = re.compile(rf"(?:{_NAME})?")
_TOKEN = re.compile(r"\s*(==|!=|=|!|,|\(|\)|<|>|[^\s,()=!<>]+)")
_MARKS = frozenset({"==", "!=", "=", ",", "(", ")", "<", ">"})
_INTEGER = re.compile(r"[-+]?[0-9]{1,63}")
_FEW = 8
"""Of more values than these a set is made, so that looking for one among them takes one step."""
MAX_LENGTH = 64 * 1024


class InvalidSelector(ValueError):
    """A text or object that is no selector; the message says where."""


class InvalidKey(InvalidSelector):
    """A selector with something as a key that cannot be one."""

    def __init__(self, key: str) -> None:
        super().__init__(f'unable to parse requirement: "{key}" cannot be a label key')
        self.key = key


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one key."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()
    _known: Collection[str] = field(default=(), init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_known", frozenset(self.values) if len(self.values) > _FEW else self.values)

    def matches(self, labels: Mapping[str, str]) -> bool:
        found = labels.get(self.key)
        if self.operator == "In":
            return found is not None and found in self._known
        if self.operator == "NotIn":
            return found is None or found not in self._known
        return _MATCHES[self.operator](found, self.values)

    def __str__(self) -> str:
        return _print(self)


def _as_int(value: str | None) -> int | None:
    """A whole number of 64 bits, as Go reads it."""
    if value is None or not _INTEGER.fullmatch(value):
        return None
    return number if -(2**63) <= (number := int(value)) < 2**63 else None


def _compare(value: str | None, values: tuple[str, ...], ordered: Callable[[int, int], bool]) -> bool:
    number, bound = _as_int(value), _as_int(values[0])
    return number is not None and bound is not None and ordered(number, bound)


_MATCHES: Mapping[str, Callable[[str | None, tuple[str, ...]], bool]] = {
    "Exists": lambda value, values: value is not None,
    "DoesNotExist": lambda value, values: value is None,
    "Gt": lambda value, values: _compare(value, values, lambda a, b: a > b),
    "Lt": lambda value, values: _compare(value, values, lambda a, b: a < b),
}


def _print(requirement: Requirement) -> str:
    key, values = requirement.key, requirement.values
    match requirement.operator:
        case "Exists":
            return key
        case "DoesNotExist":
            return f"!{key}"
        case "Gt" | "Lt":
            return f"{key}{'>' if requirement.operator == 'Gt' else '<'}{values[0]}"
        case "In" | "NotIn":
            positive = requirement.operator == "In"
            if len(values) == 1:
                return f"{key}{'=' if positive else '!='}{values[0]}"
            return f"{key} {'in' if positive else 'notin'} ({','.join(values)})"


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """Conditions that must all hold. Without any, everything matches; `nothing` matches nothing."""

    requirements: tuple[Requirement, ...] = ()
    nothing: bool = False

    def matches(self, labels: Mapping[str, str]) -> bool:
        return not self.nothing and all(requirement.matches(labels) for requirement in self.requirements)

    def __bool__(self) -> bool:
        return bool(self.requirements) or self.nothing

    def __str__(self) -> str:
        return ",".join(str(requirement) for requirement in self.requirements)


EVERYTHING = LabelSelector()
NOTHING = LabelSelector(nothing=True)


def parse_label_selector(text: str) -> LabelSelector:
    """A selector from its query-string form. Raises `InvalidSelector`."""
    if len(text) > MAX_LENGTH:
        raise InvalidSelector(f"the selector is longer than {MAX_LENGTH} characters")
    return LabelSelector(tuple(_Parser(text).requirements()))


def label_selector_from_object(selector: Mapping[str, Any] | None) -> LabelSelector:
    """A selector from its object form (`matchLabels`, `matchExpressions`). None matches nothing, an empty one
    everything.

    Raises `InvalidSelector`.
    """
    if selector is None:
        return NOTHING
    labels: Mapping[str, str] = selector.get("matchLabels") or {}
    equal = [Requirement(key, "In", (value,)) for key, value in sorted(labels.items())]
    expressions: Sequence[Mapping[str, Any]] = selector.get("matchExpressions") or ()
    return LabelSelector((*equal, *(_expression(expression) for expression in expressions)))


def label_selector_of(selector: msgspec.Struct | None) -> LabelSelector:
    """The same from an object's typed field (`mooring.kube.objects.LabelSelector`). Raises
    `InvalidSelector`."""
    return label_selector_from_object(None if selector is None else msgspec.to_builtins(selector))


def _expression(expression: Mapping[str, Any]) -> Requirement:
    named = expression.get("operator")
    operator: Operator | None = next((each for each in _OPERATORS if each == named), None)
    if operator is None:
        raise InvalidSelector(f'"{named}" is not a valid label selector operator')
    values: Sequence[str] = expression.get("values") or ()
    if operator in ("In", "NotIn") and not values:
        raise InvalidSelector(f"values: Required value: must be specified when `operator` is '{operator}'")
    return Requirement(str(expression.get("key", "")), operator, tuple(values))


class _Parser:
    """A recursive-descent parser over the tokens of one selector."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = self._split(text)
        self._next = 0

    def requirements(self) -> list[Requirement]:
        found: list[Requirement] = []
        while self._peek():
            if self._peek() in _MARKS:
                raise InvalidSelector(f"found '{self._peek()}', expected: !, identifier, or 'end of string'")
            found.append(self._requirement())
            if not self._peek():
                break
            if (mark := self._take()) != ",":
                raise InvalidSelector(f"found '{mark}', expected: ',' or 'end of string'")
            if (after := self._peek()) in ("", *_MARKS):
                raise InvalidSelector(f"found '{after}', expected: identifier after ','")
        return found

    def _split(self, text: str) -> list[str]:
        return [match.group(1) for match in _TOKEN.finditer(text.rstrip())]

    def _requirement(self) -> Requirement:
        if self._peek() == "!":
            self._take()
            return Requirement(self._key(), "DoesNotExist")
        key = self._key()
        match self._peek():
            case "" | ",":
                return Requirement(key, "Exists")
            case "=" | "==":
                self._take()
                return Requirement(key, "In", (self._value(),))
            case "!=":
                self._take()
                return Requirement(key, "NotIn", (self._value(),))
            case "in" | "notin":
                operator: Operator = "In" if self._take() == "in" else "NotIn"
                return Requirement(key, operator, self._values())
            case ">" | "<":
                operator = "Gt" if self._take() == ">" else "Lt"
                return Requirement(key, operator, (self._integer(),))
            case other:
                raise self._error(f"found '{other}', expected: in, notin, =, ==, !=, gt, lt")

    def _key(self) -> str:
        token = self._take()
        if token in ("", "!", *_MARKS):
            raise self._error(f"found '{token}', expected: identifier")
        if not _KEY.fullmatch(token):
            raise InvalidKey(token)
        return token

    def _value(self) -> str:
        if self._peek() in ("", ","):
            return ""
        token = self._take()
        if not _VALUE.fullmatch(token):
            raise self._error(f'"{token}" is not a valid label value')
        return token

    def _integer(self) -> str:
        token = self._take()
        if _as_int(token) is None:
            detail = f"values[0]: Invalid value: \"{token}\": for 'Gt', 'Lt' operators, the value must be an integer"
            raise self._error(detail)
        return token

    def _values(self) -> tuple[str, ...]:
        self._expect("(", "'('")
        values: list[str] = []
        while True:
            values.append("" if self._peek() in (",", ")") else self._value())
            if self._peek() != ",":
                break
            self._take()
        self._expect(")", "',' or ')'")
        return tuple(sorted(set(values)))

    def _peek(self) -> str:
        return self._tokens[self._next] if self._next < len(self._tokens) else ""

    def _take(self) -> str:
        token = self._peek()
        self._next += 1
        return token

    def _expect(self, wanted: str, detail: str) -> None:
        if (found := self._take()) != wanted:
            raise self._error(f"found '{found}', expected: {detail}")

    def _error(self, why: str) -> InvalidSelector:
        return InvalidSelector(f"unable to parse requirement: {why}")


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """Fields that must equal (or not equal) a value: triples of field, whether equal, and value."""

    terms: tuple[tuple[str, bool, str], ...] = ()

    def matches(self, fields: Mapping[str, str]) -> bool:
        return all((fields.get(field, "") == value) is equal for field, equal, value in self.terms)

    def exact(self, field: str) -> str | None:
        """The one value that `field` must have, or None if the selector leaves it open."""
        return next((value for name, equal, value in self.terms if name == field and equal), None)

    def __bool__(self) -> bool:
        return bool(self.terms)

    def __str__(self) -> str:
        return ",".join(
            f"{field}{'=' if equal else '!='}{_escape(value)}" for field, equal, value in self.terms
        )


def field_equals(field: str, value: str) -> str:
    """The query-string form of a selector for objects whose `field` is `value`, whatever characters that
    has."""
    return str(FieldSelector(((field, True, value),)))


def parse_field_selector(text: str) -> FieldSelector:
    """A field selector from its query-string form. Raises `InvalidSelector`."""
    if len(text) > MAX_LENGTH:
        raise InvalidSelector(f"the selector is longer than {MAX_LENGTH} characters")
    terms = [term for term in re.findall(r"(?:\\.|[^,\\])+", text) if term]
    return FieldSelector(tuple(_term(term) for term in terms))


def _term(term: str) -> tuple[str, bool, str]:
    match = re.fullmatch(r"([^=!\\]+)(==|!=|=)((?:\\[\\,=]|[^\\,=])*)", term)
    if match is None or not match[1].strip():
        raise InvalidSelector(f"invalid selector: '{term}'; can't understand '{term}'")
    field, operator, value = match.groups()
    return field.strip(), operator != "!=", re.sub(r"\\(.)", r"\1", value)


def _escape(value: str) -> str:
    return re.sub(r"([\\,=])", r"\\\1", value)
