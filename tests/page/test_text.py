"""The commands that an advice names, and only those that mean to a shell what they mean to a reader."""

from __future__ import annotations

import pytest

from mooring.page.text import commands, message, name


@pytest.mark.parametrize(
    ("advice", "found"),
    [
        ("if the machine is certainly off: mooring node confirm-dead n", ["mooring node confirm-dead n"]),
        (
            "bring it back; or make sure that its machine is off, then: mooring node confirm-dead n",
            ["mooring node confirm-dead n"],
        ),
        (
            "to give it to a new claim: kubectl patch pv v --type json -p "
            """'[{"op":"remove","path":"/spec/claimRef"}]'; to give it up: kubectl delete pv v""",
            [
                """kubectl patch pv v --type json -p '[{"op":"remove","path":"/spec/claimRef"}]'""",
                "kubectl delete pv v",
            ],
        ),
        (
            "stay until then, or until it is certainly off (mooring fence confirm n), or until it has it",
            ["mooring fence confirm n"],
        ),
        ("kubectl -n d logs p -c c --previous", ["kubectl -n d logs p -c c --previous"]),
        ("create a pod that uses it", []),
    ],
)
def test_the_commands_of_an_advice(advice: str, found: list[str]):
    assert commands(advice) == found


@pytest.mark.parametrize(
    "evil", ["$(reboot)", "a|b", "a&b", "a\\b", "`id`", "a'b", 'a"b', "a*", "~", "!x", "<img>"]
)
def test_a_name_that_a_shell_would_act_upon_is_in_no_command(evil: str):
    assert not [each for each in commands(f"then: mooring node confirm-dead {evil}") if evil in each]


def test_names_and_messages_are_one_line_and_bounded():
    assert name("a\nb") == "a\\nb"
    assert len(name("x" * 1000)) == 320
    assert message("one\n\n two") == "one two"
