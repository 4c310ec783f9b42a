"""The embedded server answers the whole script as the real kube-apiserver was recorded to answer it.

Status codes and reasons agree without exception. What else may differ is listed in `docs/api-differences.md`:
at most fifteen entries, each with its reason, none of which says anything of a status code or a reason.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.differential.answers import Difference, differences, recorded
from tests.differential.known import LIST, known
from tests.differential.player import play
from tests.differential.script import SCRIPT
from tests.differential.servers import embedded, to_embedded

MOST_KNOWN = 15


@pytest.fixture(scope="module")
def ours() -> dict[str, Any]:
    """The embedded server's answers."""
    from tests.conftest import run_in_virtual_time

    async def story() -> dict[str, Any]:
        server = embedded()
        await server.start()
        return await play(SCRIPT, to_embedded(server))

    return run_in_virtual_time(story())


def test_every_status_code_and_reason_agrees(ours: dict[str, Any]) -> None:
    real = recorded()
    found = [
        f"{name} {real[name]['request']}: real {expected}, ours {actual}"
        for name in real
        if (expected := _outcome(real[name])) != (actual := _outcome(ours[name]))
    ]
    assert not found, "\n".join(found)


def _outcome(answer: dict[str, Any]) -> tuple[int, str | None]:
    body = answer["body"]
    return answer["status"], body.get("reason") if isinstance(body, dict) and body.get(
        "kind"
    ) == "Status" else None


def test_everything_agrees_but_what_is_listed(ours: dict[str, Any]) -> None:
    entries = known()
    found = [
        f"{step} {recorded()[step]['request']}\n    {difference}"
        for step, difference in _found(ours)
        if not any(entry.covers(step, difference) for entry in entries)
    ]
    assert not found, "\n".join(found)


def test_every_entry_of_the_list_is_needed(ours: dict[str, Any]) -> None:
    found = _found(ours)
    idle = [
        entry for entry in known() if not any(entry.covers(step, difference) for step, difference in found)
    ]
    assert not idle


def _found(ours: dict[str, Any]) -> list[tuple[str, Difference]]:
    real = recorded()
    return [(step, difference) for step in real for difference in differences(real[step], ours[step])]


def test_the_list_is_short_and_says_nothing_of_codes_or_reasons() -> None:
    entries = known()
    assert 0 < len(entries) <= MOST_KNOWN
    assert len(entries) == len(re.findall(r"^\d+\.", LIST.read_text(), re.MULTILINE)), (
        "an entry cannot be read"
    )
    forbidden = ("status", "body.code", "body.reason", "body.status")
    assert not [entry for entry in entries if any(map(entry.is_about, forbidden))]


def test_entries_about_messages_say_which() -> None:
    worded = ("body.message", "body.details", "body.details.causes", "body.details.causes[0].message")
    vague = [
        entry for entry in known() if any(map(entry.is_about, worded)) and not (entry.texts or entry.steps)
    ]
    assert not vague
