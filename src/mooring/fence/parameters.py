"""What is wrong with the parameters that a mechanism is given, and their secrets kept out of what is said.
Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

from mooring.fence.interface import Order, Parameter

VALUE_CHARACTERS = 64 * 1024


def problems(known: Mapping[str, Parameter], order: Order) -> list[str]:
    """Sentences; none says a value that came from a Secret."""
    found = [
        f"{name} is missing ({each.summary.rstrip('.')}); {_where(each)}"
        for name, each in known.items()
        if each.required and not given(order).get(name)
    ]
    for name in sorted({*order.parameters, *order.secrets}):
        found += _of(name, known, order)
    return found


def _of(name: str, known: Mapping[str, Parameter], order: Order) -> list[str]:
    parameter = known.get(name)
    if parameter is None:
        return [f"{name} is no parameter of it{_like(name, known)}"]
    if name in order.parameters and parameter.secret:
        return [f"{name} is a secret, and is given in the open: put it into the Secret, and change it"]
    if name in order.parameters and name in order.secrets:
        return [f"{name} is given twice: as a parameter, and in the Secret"]
    return [f"{name} {wrong}" for wrong in unusable(given(order)[name])]


def unusable(value: str, *, lines: bool = True) -> list[str]:
    """What no value may be; `lines`: whether it may have several."""
    found: list[str] = []
    if len(value) > VALUE_CHARACTERS:
        found.append(f"has more than {VALUE_CHARACTERS} characters")
    if any(each == "\x7f" or (each < " " and not (lines and each in "\n\r\t")) for each in value):
        found.append("has control characters" if lines else "has line breaks or other control characters")
    return found


def given(order: Order) -> dict[str, str]:
    """All parameters, whichever way they came."""
    return {**order.parameters, **order.secrets}


def without_secrets(text: str, secrets: Iterable[str]) -> str:
    """The text, with *** in the place of each secret."""
    for secret in sorted({part for each in secrets for part in (each, each.strip())}, key=len, reverse=True):
        if secret:
            text = text.replace(secret, "***")
    return text


def _where(parameter: Parameter) -> str:
    return "give it in the Secret" if parameter.secret else "give it as a parameter"


def _like(name: str, known: Mapping[str, Parameter]) -> str:
    close = difflib.get_close_matches(name, known, 1)
    return f": did you mean {close[0]}?" if close else f": it has {', '.join(known) or 'none'}"
