"""The adapter with agents that are played: what their exit statuses and words are worth."""

from __future__ import annotations

import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.fence import contract

from mooring.fence.agents import decide, kinds
from mooring.fence.interface import Answer, Order, Outcome, Parameter, Scope, State, Target
from mooring.fence.parameters import problems, without_secrets
from mooring.fence.programs import Ended

METADATA = """<resource-agent name="fence_played"><parameters>
<parameter name="plug"><content type="string" /></parameter>
<parameter name="password"><content type="string" /></parameter>
<parameter name="power_timeout"><content type="second" default="5" /></parameter>
<parameter name="ssl"><content type="boolean" /></parameter>
</parameters><actions>{actions}</actions></resource-agent>"""
ACTIONS = "".join(f'<action name="{name}" />' for name in ("on", "off", "reboot", "status"))
AGENT = """#!/bin/bash
[ "$1" = -o ] && cat {directory}/metadata && exit 0
cat > {directory}/given
action=$(sed -n s/^action=//p {directory}/given)
echo $action >> {directory}/actions
{script}
"""
SWITCH = """
case $action in
off) echo off > {directory}/state; echo 'Success: Powered OFF';;
on) echo on > {directory}/state; echo 'Success: Powered ON';;
status) state=$(cat {directory}/state); echo "Status: ${state^^}"; [ $state = off ] && exit 2;;
esac; exit 0
"""
Play = Callable[..., Path]


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Play:
    """Installs an agent that is on, and does what the script says after it knows $action."""

    def installed(script: str, actions: str = ACTIONS) -> Path:
        (tmp_path / "metadata").write_text(METADATA.format(actions=actions))
        (tmp_path / "state").write_text("on\n")
        (tmp_path / "actions").write_text("")
        agent = tmp_path / "fence_played"
        agent.write_text(
            AGENT.format(directory=tmp_path, script=script.replace("{directory}", str(tmp_path)))
        )
        agent.chmod(agent.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        return tmp_path

    return installed


def order(**changes: object) -> Order:
    return replace(
        Order(
            Target("node-1", "uid", "boot"),
            "token",
            {"agent": "fence_played", "plug": "4", "power_timeout": "2"},
            {"password": "hush hush"},
            20,
        ),
        **changes,
    )


async def fence(**changes: object) -> Answer:
    return await kinds.agent().fence(order(**changes))


async def test_an_agent_gets_its_parameters_by_stdin_alone_and_is_never_told_to_reboot(play: Play):
    directory = play("tr '\\0' '\\n' < /proc/$$/cmdline > {directory}/words" + SWITCH)
    answer = await fence()
    assert (answer.outcome, answer.before) == (Outcome.FENCED, State.OPEN)
    assert (directory / "given").read_text().splitlines() == [
        "plug=4",
        "power_timeout=2",
        "password=hush hush",
        "action=status",
    ]
    assert "hush" not in (directory / "words").read_text()
    assert (directory / "actions").read_text().split() == ["status", "off", "status"]


async def test_what_is_off_already_is_ordered_off_all_the_same_and_told_as_weaker(play: Play):
    directory = play(SWITCH)
    (directory / "state").write_text("off\n")
    answer = await fence()
    assert (answer.outcome, answer.before) == (Outcome.FENCED, State.SHUT)
    assert "off" in (directory / "actions").read_text().split()


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("exit 2", "Failed"),  # as Python of a file that it cannot open
        ("echo 'Status: OFF'; exit 0", "Contradiction"),
        ("echo 'Status: ON'; exit 2", "Contradiction"),
        ("echo 'Status: ON'; echo 'Status: OFF'; exit 2", "Contradiction"),
        ("[ $action = off ] && exit 0; echo 'Status: ON'; exit 0", "Contradiction"),
        ("[ $action = off ] && exit 1; echo 'Status: ON'; exit 0", "OrderFailed"),
        ("[ $action = off ] && exit 1; echo 'Status: OFF'; exit 2", "OrderFailed"),
        ("[ $action = off ] && exit 0; echo 'Status: unknown'; exit 1", "Failed"),
        ("kill -9 $$", "Failed"),
    ],
)
async def test_words_and_exit_status_that_do_not_agree_are_unknown(play: Play, script: str, code: str):
    play(script)
    answer = await fence()
    assert (answer.outcome, answer.code) == (Outcome.UNKNOWN, code)


async def test_an_order_that_failed_is_repeated_and_counts_when_it_is_confirmed(play: Play):
    play(
        "[ $action = off ] && [ $(cat {directory}/state) = on ] && echo off > {directory}/state && exit 1"
        + SWITCH
    )
    answer = await fence()
    assert answer.outcome is Outcome.FENCED
    assert answer.before is State.OPEN


async def test_an_agent_that_hangs_is_unknown_and_its_helpers_are_ended(play: Play):
    directory = play("setsid sleep 300 & [ $action = off ] && echo off > {directory}/state; sleep 300")
    answer = await fence(deadline=5)
    assert (answer.outcome, answer.code) == (Outcome.UNKNOWN, "Silent")
    assert (directory / "state").read_text() == "off\n"  # unknown, and it happened
    assert contract.offspring() == []


async def test_an_agent_that_cannot_be_started_any_more_may_have_carried_its_order_out(play: Play):
    """As where the machine has no memory left for one more process."""
    directory = play("[ $action = off ] && echo off > {directory}/state && chmod -x $0; exit 1")
    answer = await fence()
    assert (answer.outcome, answer.code) == (Outcome.UNKNOWN, "NotInstalled")
    assert (directory / "state").read_text() == "off\n"


async def test_a_secret_that_the_agent_says_aloud_is_not_said_again(play: Play):
    play("sed s/^/given:/ {directory}/given >&2; exit 1")
    answer = await fence()
    assert "hush" not in repr(answer)
    assert "***" in answer.message


async def test_unfence_switches_on_and_sees_it(play: Play):
    directory = play(SWITCH)
    await fence()
    assert (await kinds.agent().unfence(order())).outcome is Outcome.UNFENCED
    assert (directory / "state").read_text() == "on\n"


# --- bad input


@pytest.mark.parametrize(
    ("parameters", "secrets", "wrong"),
    [
        ({"plug": "4"}, {}, "agent is missing"),
        ({"agent": "fence_none"}, {}, "fence_none is not installed: apt-get install fence-agents"),
        ({"agent": "/bin/sh"}, {}, "is no name of a fence agent"),
        ({"agent": "fence_played", "plugg": "4"}, {}, "plugg is no parameter of it: did you mean plug?"),
        ({"agent": "fence_played", "password": "x"}, {}, "password is a secret, and is given in the open"),
        ({"agent": "fence_played", "plug": "1"}, {"plug": "2"}, "plug is given twice"),
        ({"agent": "fence_played", "action": "on"}, {}, "action is not passed on"),
        ({"agent": "fence_played", "password_script": "id"}, {}, "would run a program of your choice"),
        ({"agent": "fence_played", "missing_as_off": "1"}, {}, "for one that is off"),
        ({"agent": "fence_played", "plug": "4\naction=reboot"}, {}, "plug has line breaks"),
        ({"agent": "fence_played", "power_timeout": "soon"}, {}, "power_timeout is no number"),
        ({"agent": "fence_played", "ssl": "maybe"}, {}, "ssl is neither 1 nor 0"),
        ({"agent": "fence_played", "power_timeout": "40"}, {}, "a deadline of 60 s is too short"),
    ],
)
async def test_bad_input_is_said_and_nothing_is_done(
    play: Play, parameters: dict[str, str], secrets: dict[str, str], wrong: str
):
    directory = play(SWITCH)
    bad = order(parameters=parameters, secrets=secrets, deadline=60.0)
    assert any(wrong in problem for problem in kinds.agent().problems(bad)), kinds.agent().problems(bad)
    answer = await kinds.agent().fence(bad)
    assert (answer.outcome, answer.code) == (Outcome.NOT_FENCED, "BadParameter")
    assert (await kinds.agent().look(bad)).code == "BadParameter"
    assert (directory / "actions").read_text() == ""


def test_an_agent_of_ports_is_no_agent_of_power_and_the_other_way_round(play: Play):
    play(SWITCH, actions=ACTIONS.replace('<action name="reboot" />', ""))
    assert any("leaves the machine on" in each for each in kinds.agent().problems(order()))
    assert kinds.fabric_agent().problems(order()) == []
    play(SWITCH)
    assert any("cuts power" in each for each in kinds.fabric_agent().problems(order()))


def test_an_agent_that_cannot_look_is_none(play: Play):
    play(SWITCH, actions='<action name="off" /><action name="reboot" />')
    assert "fence_played has no status" in kinds.agent().problems(order())


@pytest.mark.parametrize("agent", sorted(decide.NO_POWER))
def test_agents_that_switch_nothing_off_are_refused(agent: str):
    if found := [
        each for each in kinds.agent().problems(order(parameters={"agent": agent})) if "installed" not in each
    ]:
        assert any("is no mechanism" in each or "does not say what it is" in each for each in found)


def test_every_kind_has_its_scope_and_describes_each_parameter():
    scopes = {each.kind: each.scope for each in kinds.KINDS}
    assert scopes["switch-port"] is scopes["fabric-agent"] is Scope.NETWORK
    assert {kind for kind, scope in scopes.items() if scope is Scope.POWER} == {
        "agent",
        "ipmi",
        "redfish",
        "power-strip",
        "virsh",
    }
    assert all(parameter.summary for each in kinds.KINDS for parameter in each.parameters.values())


def test_a_missing_program_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("mooring.fence.programs.search_path", lambda: "/nowhere")
    found = kinds.ipmi().problems(Order(Target("n", "u", "b")))
    assert "ipmitool is not installed: apt-get install ipmitool" in found
    assert "fence_ipmilan is not installed: apt-get install fence-agents" in found


# --- pure


def test_secrets_are_taken_out_longest_first():
    assert without_secrets("ab abc b", ["ab", "abc", ""]) == "*** *** b"


def test_a_missing_secret_is_asked_for_where_it_belongs():
    known = {"password": Parameter("The password", required=True, secret=True)}
    assert problems(known, Order(Target("n", "u", "b"))) == [
        "password is missing (The password); give it in the Secret"
    ]


@pytest.mark.parametrize("value", [" x", "x ", '"x"', 'x"', "", '""'])
def test_a_value_reaches_the_agent_as_it_is(value: str):
    line = decide.lines({"name": value}).decode().removesuffix("\n").strip()
    got = line.split("=", 1)[1]
    assert (got[1:-1] if len(got) > 1 and got[0] == got[-1] == '"' else got) == value


@pytest.mark.parametrize(
    ("status", "output", "state"),
    [
        (0, "Status: ON\n", State.OPEN),
        (2, "noise\nSTATUS: off\n", State.SHUT),
        (2, "off", State.UNKNOWN),
        (0, "", State.UNKNOWN),
        (1, "Status: OFF", State.UNKNOWN),
        (None, "Status: OFF", State.UNKNOWN),
    ],
)
def test_a_state_needs_status_and_words(status: int | None, output: str, state: State):
    assert decide.state_of(Ended(status, output))[0] is state
