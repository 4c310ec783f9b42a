"""The report: recovery, availability, pictures, and what is wrong with a scenario."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from click.testing import CliRunner

from mooring.cli.main import cli
from mooring.cli.simulation_report import draw
from mooring.simulation.checks.availability import Availability, Gap
from mooring.simulation.cluster.scenario import Scenario
from mooring.simulation.cluster.scenario_file import ScenarioError, read_scenario
from mooring.simulation.engine.trace import Trace
from mooring.simulation.run import play
from mooring.simulation.search.campaign import Job, play_batch
from mooring.simulation.search.report import page, rows
from mooring.simulation.search.summary import Summary

EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "simulation").glob("*.yaml"))
TINY = Scenario(nodes=2, sets={"db": 1}, minutes=8, faults=2, actions=3)


class Told:
    """A trace with a clock of its own."""

    def __init__(self) -> None:
        self.now = 0.0
        self.trace = Trace(lambda: self.now)
        self.seen = Availability(self.trace, {"db": 2})

    def __call__(self, at: float, kind: str, **fields: object) -> None:
        self.now = at
        self.trace("x", kind, **fields)


def test_a_pod_is_away_from_its_last_process_to_the_next():
    story = Told()
    story(1, "truth.started", pod="db-0", uid="a")
    story(2, "truth.ended", pod="db-0", uid="a")
    story(5, "truth.started", pod="db-0", uid="b")
    story(7, "truth.ended", pod="db-0", uid="b")
    assert story.seen.end(10) == [Gap("db-0", 2, 3), Gap("db-0", 7, 3, recovered=False)]


def test_who_scales_down_makes_no_outage():
    story = Told()
    story(1, "truth.started", pod="db-0", uid="a")
    story(2, "plan.step", what="scale", on="db", value=0.0)
    story(3, "truth.ended", pod="db-0", uid="a")
    assert story.seen.end(1000) == []


def test_an_outage_counts_but_for_the_three_minutes_after_a_wish():
    story = Told()
    story(1, "truth.started", pod="db-0", uid="a")
    story(10, "truth.ended", pod="db-0", uid="a")
    story(12, "plan.step", what="delete-set", on="db", value=0.0)
    story(500, "truth.started", pod="db-0", uid="b")
    assert story.seen.end(500) == [Gap("db-0", 10, 310)]


def test_figures_of_parts_of_a_campaign_add_up():
    parts = [play_batch([Job(seed)], TINY) for seed in (1, 2)]
    whole, added = play_batch([Job(1), Job(2)], TINY), Summary()
    for part in parts:
        added.add(part)
    assert [*rows(added)] == [*rows(whole)]
    assert (added.recoveries, added.counts) == (whole.recoveries, dict(sorted(whole.counts.items())))
    assert added.away == pytest.approx(whole.away)


def test_within_how_many_seconds_a_share_of_the_pods_was_back():
    summary = Summary(recoveries={1.0: 8, 60.0: 1, 300.0: 1})
    assert [summary.recovered_within(share) for share in (0.5, 0.9, 1.0)] == [1.0, 60.0, 300.0]


def test_the_picture_shows_each_volume_where_it_was_and_changes_nothing():
    outcome, picture = draw(lambda observe: play(3, TINY, observe=observe))
    assert outcome.digest == play(3, TINY).digest
    assert ET.fromstring(picture).tag.endswith("svg")
    assert ">data-db-0<" in picture
    assert ">pod db-0<" in picture
    assert ">everything is healed<" in picture
    assert "prefers-color-scheme: dark" in picture
    text = page(play_batch([Job(3)], TINY), outcome, picture, "a <title>", [("cluster", "small")])
    assert "a &lt;title&gt;" in text
    assert "src=" not in text, "it needs nothing but itself"


@pytest.mark.soak
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_examples_violate_nothing(path: Path):
    scenario = read_scenario(path)
    assert play(1, scenario).violations == []


def test_the_command_writes_a_page_and_a_picture(tmp_path: Path):
    scenario = tmp_path / "s.yaml"
    scenario.write_text(
        "nodes: 2\nsets: {db: 1}\nminutes: 8\nsteps: [{at: 60, what: kill, on: n0, value: 5}]\n"
    )
    html, svg = tmp_path / "r.html", tmp_path / "r.svg"
    answer = CliRunner().invoke(
        cli,
        ["simulate", str(scenario), "--seeds", "1", "--workers", "1", "--html", str(html), "--svg", str(svg)],
    )
    assert answer.exit_code == 0, answer.output
    assert "API writes" in answer.output
    assert svg.read_text() in html.read_text()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("fencing: {agent: ipmi}\n", "unknown field|its ladder is empty"),
        ("only: [flood]\n", "there is no flood"),
        ("steps: [{at: 60, what: kill, on: n7}]\n", "there is no n7"),
        ("steps: [{at: 1700, what: kill, on: n0}]\n", "everything is healed"),
        ("storage: tape\n", "there is no tape"),
        ("- 1\n", "s.yaml"),
    ],
)
def test_what_is_wrong_with_a_scenario_is_said(tmp_path: Path, text: str, words: str):
    path = tmp_path / "s.yaml"
    path.write_text(text)
    with pytest.raises(ScenarioError, match=words):
        read_scenario(path)
