"""The building blocks of validation: a check takes a value and returns its errors, none for a valid value.

Paths in errors are relative to the value that was checked; `at` puts a field or an index before them. A value
that is absent is None, as is null.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, cast

from mooring.apiserver.errors import (
    FieldError,
    Obj,
    duplicate,
    forbidden_field,
    invalid_value,
    required,
    unsupported,
)
from mooring.apiserver.objects.validation.formats import Format, port_name_error

Errors: TypeAlias = Sequence[FieldError]
Check: TypeAlias = Callable[[Any], Errors]
NONE: Errors = ()
NOT_NEGATIVE = "must be greater than or equal to 0"
_TEXTS = 2**31 - 1


def joined(step: str, rest: str) -> str:
    """A path below a step: `spec` and `[0].name` are `spec[0].name`."""
    if not rest or not step:
        return step or rest
    return step + rest if rest[0] == "[" else f"{step}.{rest}"


def at(step: str, errors: Iterable[FieldError]) -> list[FieldError]:
    """Errors of a part of a value, as errors of the value."""
    return [FieldError(each.type, joined(step, each.field), each.body) for each in errors]


def record(*rules: tuple[str, Check] | Check) -> Check:
    """An object: each rule is a field with the check of its value, or a check of the whole object, in this
    order.

    A field's check is run if the object has the field, or the check is marked by `always`.
    """
    plan: list[tuple[str, Check]] = [rule if isinstance(rule, tuple) else ("", rule) for rule in rules]
    steps = [(name, check, bool(getattr(check, "always", False))) for name, check in plan]

    def check_record(obj: Obj) -> Errors:
        errors: list[FieldError] = []
        for name, check, always in steps:
            if not name:
                errors += check(obj)
            elif (value := obj.get(name)) is not None or always:
                inner = check(value)
                if inner:
                    errors += at(name, inner)
        return errors

    return check_record


def always(check: Check) -> Check:
    """The same check, also run where its field is absent: it then gets None."""

    def check_always(value: Any) -> Errors:
        return check(value)

    check_always.always = True  # pyright: ignore[reportFunctionMemberAccess]
    return check_always


def needed(*checks: Check, detail: str = "") -> Check:
    """A field that must be there and not be empty; `checks` say what else it must be."""

    def check_needed(value: Any) -> Errors:
        if value is None or value in ("", [], {}):
            return [required("", detail)]
        return all_of(*checks)(value)

    return always(check_needed)


def present(*checks: Check, detail: str = "") -> Check:
    """A field that must be there, though it may be empty."""

    def check_present(value: Any) -> Errors:
        return [required("", detail)] if value is None else all_of(*checks)(value)

    return always(check_present)


def all_of(*checks: Check) -> Check:
    """Every one of the checks."""
    if len(checks) == 1:
        return checks[0]

    def check_all(value: Any) -> Errors:
        return [error for check in checks for error in check(value)]

    return check_all


def text(why: Format) -> Check:
    """A text of a format; an empty one counts as absent."""
    return lambda value: (
        [invalid_value("", value, detail)] if value and (detail := why(value)) is not None else NONE
    )


def exactly(why: Format) -> Check:
    """A text of a format, also if it is empty."""
    return lambda value: (
        [invalid_value("", value, detail)] if (detail := why(value or "")) is not None else NONE
    )


def one_of(*allowed: str, needs: bool = False) -> Check:
    """One of some words; with `needs` an empty text is missing rather than wrong."""

    def check_word(value: Any) -> Errors:
        if needs and not value:
            return [required("")]
        return NONE if value in allowed else [unsupported("", value or "", allowed)]

    return check_word


def longest(limit: int) -> Check:
    """A text of at most so many bytes."""

    def check_length(value: Any) -> Errors:
        return [too_long("", limit)] if value and len(value.encode(errors="replace")) > limit else NONE

    return check_length


def too_long(path: str, limit: int) -> FieldError:
    """A text or map that has too many bytes."""
    return FieldError("FieldValueTooLong", path, f"Too long: may not be more than {limit} bytes")


def too_many(path: str, count: int, limit: int) -> FieldError:
    """A list with too many entries."""
    return FieldError("FieldValueTooMany", path, f"Too many: {count}: must have at most {limit} items")


def between(least: int, most: int = _TEXTS) -> Check:
    """A whole number within bounds, both inclusive."""
    detail = f"must be between {least} and {most}, inclusive"
    return lambda value: NONE if least <= (value or 0) <= most else [invalid_value("", value or 0, detail)]


def least(limit: int, detail: str = "") -> Check:
    """A whole number that is not below a limit."""
    detail = detail or f"must be greater than or equal to {limit}"
    return lambda value: NONE if (value or 0) >= limit else [invalid_value("", value or 0, detail)]


not_negative = least(0, NOT_NEGATIVE)
positive = least(1, "must be greater than zero")
port = between(1, 65535)
group_id = between(0, _TEXTS)


def file_mode(value: Any) -> Errors:
    """The mode of a file, as `chmod` takes it."""
    detail = "must be a number between 0 and 0777 (octal), both inclusive"
    return NONE if 0 <= value <= 0o777 else [invalid_value("", value, detail)]


def text_or_number(why: Format, number: Check) -> Check:
    """A text of a format, or a number."""
    of_text = exactly(why)
    return lambda value: of_text(value) if isinstance(value, str) else number(value)


port_or_name = text_or_number(port_name_error, port)
"""A port's number, or its name."""


def each(check: Check) -> Check:
    """Every entry of a list."""

    def check_each(value: Any) -> Errors:
        errors: list[FieldError] = []
        for index, entry in enumerate(value or ()):
            inner = check(entry)
            if inner:
                errors += at(f"[{index}]", inner)
        return errors

    return check_each


def distinct(name: Callable[[Any], Any], path: str = "") -> Check:
    """A list whose entries differ by what `name` makes of them; the error is at `path` in the later entry."""

    def check_distinct(value: Any) -> Errors:
        seen: set[Any] = set()
        errors: list[FieldError] = []
        for index, entry in enumerate(value or ()):
            key = name(entry)
            if key in seen:
                errors.append(duplicate(joined(f"[{index}]", path), key))
            seen.add(key)
        return errors

    return check_distinct


def no_steps_back(value: Any) -> Errors:
    """A path without `..`."""
    return [invalid_value("", value, "must not contain '..'")] if ".." in (value or "").split("/") else NONE


def descending(value: Any) -> Errors:
    """A relative path without `..`."""
    errors = [invalid_value("", value, "must be a relative path")] if (value or "").startswith("/") else []
    return [*errors, *no_steps_back(value)]


def local_path(value: Any) -> Errors:
    """A relative path that does not go up and does not begin with the kubelet's own prefix (`..data`)."""
    errors = list(descending(value))
    if (value or "").startswith("..") and not value.startswith("../"):
        errors.append(invalid_value("", value, "must not start with '..'"))
    return errors


def exclusive(
    sources: Mapping[str, Check],
    *,
    none: Callable[[], FieldError],
    more: str = "may not specify more than 1 volume type",
    renamed: Mapping[str, str] | None = None,
    unchecked: Collection[str] = (),
) -> Check:
    """An object with exactly one of some fields: the first is checked, every later one is forbidden.

    `renamed` has the paths under which upstream reports some of them; those in `unchecked` count, but are
    never forbidden.
    """
    names = renamed or {}

    def check_sources(obj: Obj) -> Errors:
        errors: list[FieldError] = []
        count = 0
        for name, check in sources.items():
            source = obj.get(name)
            if source is None:
                continue
            if count and name not in unchecked:
                errors.append(forbidden_field(names.get(f"{name}!", name), more))
                continue
            count += 1
            inner = check(source)
            if inner:
                errors += at(names.get(name, name), inner)
        return errors if count else [*errors, none()]

    return check_sources


def part(obj: Obj, field: str) -> Obj:
    """The object in a field; an empty one if there is none."""
    return cast(Obj, obj.get(field) or {})


def part_of(value: Any) -> Obj:
    """A value as an object; an empty one if there is none."""
    return cast(Obj, value or {})


def entries(obj: Obj, field: str) -> list[Any]:
    """The list in a field; an empty one if there is none."""
    return cast(list[Any], obj.get(field) or [])


def objects(value: Any) -> list[Obj]:
    """A list of objects, or none."""
    return cast(list[Obj], value or [])
