"""What agents say of themselves, also when it is not what they should say."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.fence.agents import decide
from mooring.fence.agents.installed import NoAgent, installed
from mooring.fence.agents.metadata import ELEMENTS, TEXT_BYTES, AgentParameter, BadMetadata, parse

TEXT = """<?xml version="1.0" ?>
<resource-agent name="fence_x" shortdesc="x"><longdesc>long</longdesc><parameters>
<parameter name="ip" unique="0" required="0" obsoletes="ipaddr"><getopt mixed="-a" /><content type="string" />
<shortdesc lang="en">Address &amp; name</shortdesc></parameter>
<parameter name="ipaddr" deprecated="1"><content type="string" /></parameter>
<parameter name="method"><content type="select" default="onoff"><option value="onoff" /><option value="cycle" />
</content></parameter></parameters><actions><action name="on" automatic="0"/><action name="off" /></actions>
</resource-agent>"""


def test_parameters_and_actions_are_read():
    found = parse(TEXT)
    assert (found.agent, found.actions) == ("fence_x", {"on", "off"})
    assert found.parameters["ip"] == AgentParameter("ip", instead_of="ipaddr", summary="Address & name")
    assert found.parameters["ipaddr"].deprecated
    assert found.parameters["method"].options == ("onoff", "cycle")
    assert found.parameters["method"].default == "onoff"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "fence_ack_manual: asks",
        "<resource-agent name='x'/>",
        TEXT[:-5],
        TEXT.replace("<resource-agent", "<!DOCTYPE a [<!ENTITY b 'c'>]><resource-agent", 1),
        TEXT.replace("<resource-agent", "<!DOCTYPE a SYSTEM 'file:///etc/passwd'><resource-agent", 1),
        TEXT.replace("long</", "&nothing;</"),
        TEXT.replace("<longdesc>", "<longdesc>" + "<a/>" * ELEMENTS),
        TEXT + " " * TEXT_BYTES,
    ],
)
def test_what_is_no_metadata_is_refused(text: str):
    with pytest.raises(BadMetadata):
        parse(text)


@given(
    st.one_of(
        st.text(),
        st.lists(
            st.one_of(
                st.sampled_from([TEXT[n : n + 40] for n in range(0, len(TEXT), 40)]), st.text(max_size=5)
            )
        ).map("".join),
        st.tuples(st.integers(0, len(TEXT)), st.integers(0, len(TEXT)), st.text(max_size=9)).map(
            lambda cut: TEXT[: cut[0]] + cut[2] + TEXT[cut[1] :]
        ),
    )
)
def test_any_text_is_read_or_refused(text: str):
    try:
        found = parse(text)
    except BadMetadata:
        return
    assert found.agent and found.actions


def test_every_agent_that_is_installed_is_read_or_refused_with_its_name():
    agents = sorted(path.name for path in Path("/usr/sbin").glob("fence_*"))[:12]
    if not agents:
        pytest.skip("needs fence-agents: apt-get install fence-agents")
    for agent in agents:
        try:
            assert installed(agent).parameters
        except NoAgent as error:
            assert agent in str(error)


def test_names_that_are_no_agents_are_refused_before_anything_is_run():
    for name in ("", "sh", "fence_", "../fence_x", "fence_x y", "fence_none_such"):
        with pytest.raises(NoAgent):
            installed(name)


def test_what_would_run_a_program_or_lie_is_not_passed_on():
    if shutil.which("fence_ipmilan", path="/usr/sbin") is None:
        pytest.skip("needs fence-agents: apt-get install fence-agents")
    offered = decide.as_parameters(installed("fence_ipmilan"))
    assert offered["password"].secret and offered["hexadecimal_kg"].secret and not offered["ip"].secret
    for name in (
        "action",
        "password_script",
        "ipmitool_path",
        "sudo_path",
        "debug_file",
        "verbose",
        "passwd",
    ):
        assert name not in offered
    assert decide.refused(installed("fence_ipmilan"), {"passwd": "x", "action": "off", "ip": "y"}) == {
        "passwd": "passwd is now called password",
        "action": "action is not passed on to fence_ipmilan: it is chosen here",
    }
