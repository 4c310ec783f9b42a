"""What an agent's exit status and words are worth. Pure.

FenceAgentAPI: `status` exits with 0 for on and 2 for off; each other action with 0 for done. But 2 is also
what a shell, or Python, says of a program that it cannot read, so the state counts only if the agent's words
say the same (`Status: OFF`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from mooring.fence.agents.metadata import AgentParameter, Metadata
from mooring.fence.interface import Look, Parameter, State
from mooring.fence.parameters import unusable
from mooring.fence.programs import Ended

ON, OFF = 0, 2
_STATUS = re.compile(r"^\s*status:\s*(on|off)\s*$", re.IGNORECASE | re.MULTILINE)
MESSAGE_CHARACTERS = 300

NO_POWER = {
    "fence_ack_manual": "it asks a person; that is `mooring fence confirm`",
    "fence_compute": "it writes a record, and switches nothing off",
    "fence_crosslink": "it concludes that a machine is off from its silence",
    "fence_dummy": "it switches nothing off",
    "fence_evacuate": "it moves virtual machines, and switches nothing off",
    "fence_heuristics_ping": "it only pings",
    "fence_kdump": "it waits for a message, and cannot look",
    "fence_sbd": "it relies on a watchdog of the node, which cannot be shown from here",
}
"""Agents that are no mechanism by themselves, and why."""
REFUSED = {
    r"action|nodename|help|version|quiet": "is chosen here",
    r".*_script|.*_command|ssh_options|(amttool|corosync_cmap|gnutlscli|ipmitool|mpathpersist|openstack|powerman|sbd|"
    r"sg_persist|sg_turs|snmpget|snmpset|snmpwalk|ssh|sudo|telnet|vboxmanage|vgs)[_-]path|use_sudo|sudo": "would run "
    "a program of your choice as this process",
    r"debug|debug_file|logfile|verbose|verbose_level|boto3_debug": "writes secrets into a log",
    r"missing_as_off": "takes a machine that is not found for one that is off",
    r"disable_timeout": "takes the agent's own deadlines away",
    r"record_only|runonfail|runonwarn": "reports what was not done",
}
"""Parameters of agents that are not passed on: a pattern of their names, and why."""
SECRET = re.compile(
    r"passwd|password|.*_passwd|.*_password|community|secret_key|access_key|apikey|token|hexadecimal_kg|key_value"
)


def state_of(status: Ended) -> tuple[State, str]:
    """What `status` found, and a code for why it is not known."""
    said = {word.lower() for word in _STATUS.findall(status.output)}
    if status.status is None:
        return State.UNKNOWN, "Silent"
    if status.status == ON and said == {"on"}:
        return State.OPEN, "On"
    if status.status == OFF and said == {"off"}:
        return State.SHUT, "Off"
    return State.UNKNOWN, "Contradiction" if said else "Failed"


def look_of(agent: str, status: Ended) -> Look:
    """For a person, too."""
    state, code = state_of(status)
    match state:
        case State.OPEN:
            message = f"{agent}: it is on"
        case State.SHUT:
            message = f"{agent}: it is off"
        case State.UNKNOWN:
            message = f"{agent} {status.words()}{_last(status)}"
    return Look(state, code, message)


def order_words(agent: str, action: str, ended: Ended) -> str:
    """What became of an order, for a person."""
    return f"{agent} {action}: {ended.words()}{_last(ended) if ended.status else ''}"


def _last(ended: Ended) -> str:
    lines = [line.strip() for line in (ended.errors or ended.output).splitlines() if line.strip()]
    # The cause is said first, and after it only its consequences.
    return f": {' / '.join(dict.fromkeys(lines))[:MESSAGE_CHARACTERS]}" if lines else ""


def as_parameters(metadata: Metadata) -> dict[str, Parameter]:
    """An agent's parameters as a mechanism's, without those that are not passed on."""
    return {
        name: Parameter(each.summary, secret=bool(SECRET.fullmatch(name)), per_node=name == "plug")
        for name, each in metadata.parameters.items()
        if not each.deprecated and refusal(name) is None
    }


def refusal(name: str) -> str | None:
    """Why a parameter of that name is not passed on."""
    return next((why for pattern, why in REFUSED.items() if re.fullmatch(pattern, name)), None)


def refused(metadata: Metadata, given: Mapping[str, str]) -> dict[str, str]:
    """Parameters that are not passed on, each with a sentence; also those whose name has changed."""
    found: dict[str, str] = {}
    for name in given:
        if why := refusal(name):
            found[name] = f"{name} is not passed on to {metadata.agent}: it {why}"
        elif name in metadata.parameters and metadata.parameters[name].deprecated:
            now = next((each.name for each in metadata.parameters.values() if each.instead_of == name), None)
            found[name] = f"{name} is now called {now}" if now else f"{name} is not used any more"
    return found


def value_problems(metadata: Metadata, given: Mapping[str, str]) -> list[str]:
    """Values that the agent would not take, or not as they are."""
    found: list[str] = []
    for name, value in given.items():
        parameter = metadata.parameters.get(name)
        wrong = unusable(value, lines=False)
        if not wrong and parameter is not None:
            wrong = _type_problems(parameter, value)
        found += [f"{name} {each}" for each in wrong]
    return found


def _type_problems(parameter: AgentParameter, value: str) -> list[str]:
    match parameter.type:
        case "integer" | "second" if not re.fullmatch(r"-?[0-9]{1,9}", value, re.ASCII):
            return ["is no number"]
        case "boolean" if value.lower() not in ("1", "0", "yes", "no", "on", "off", "true", "false"):
            return ["is neither 1 nor 0"]
        case "select" if parameter.options and value not in parameter.options:
            return [f"is none of {', '.join(parameter.options)}"]
        case _ if parameter.name in ("ip", "ipport", "username") and any(each.isspace() for each in value):
            return ["has spaces"]
        case _:
            return []


def own_seconds(metadata: Metadata, given: Mapping[str, str]) -> float:
    """So long may one order take by the agent's own timeouts."""

    def seconds(name: str) -> float:
        known = metadata.parameters.get(name)
        text = given.get(name, known.default if known else "")
        return float(text) if re.fullmatch(r"[0-9]{1,9}", text, re.ASCII) else 0.0

    return sum(map(seconds, ("delay", "login_timeout", "shell_timeout", "power_timeout", "power_wait")))


def lines(given: Mapping[str, str]) -> bytes:
    """What an agent reads from its standard input. The agent takes spaces off a value's ends, and then a pair
    of quotes."""
    return "".join(f"{name}={_quoted(value)}\n" for name, value in given.items()).encode()


def _quoted(value: str) -> str:
    odd = value != value.strip() or (len(value) > 1 and value[0] == value[-1] == '"')
    return f'"{value}"' if odd else value
