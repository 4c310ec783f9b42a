"""The options of attaching and detaching: upstream's forms, and what the controllers are given."""

from __future__ import annotations

from typing import Any

import click
import pytest
from click.testing import CliRunner

from mooring.cli.attaching import attach_detach, attach_detach_options
from mooring.cli.main import cli
from mooring.cli.parts import controller
from mooring.controllers.attachdetach.controller import AttachDetachOptions
from mooring.controllers.attachdetach.state import Policy
from mooring.controllers.attacher.controller import AttacherOptions


def given(*words: str) -> tuple[AttachDetachOptions, AttacherOptions]:
    @click.command()
    @attach_detach_options
    def command(**attaching: Any) -> tuple[AttachDetachOptions, AttacherOptions]:
        return attach_detach(**attaching)

    return command.main(list(words), standalone_mode=False)


def test_without_a_word_they_are_upstreams():
    assert given() == (AttachDetachOptions(), AttacherOptions())


@pytest.mark.parametrize(
    ("words", "policy"),
    [
        (["--force-detach-after=90s"], Policy(90.0)),
        (["--force-detach-after", "0"], Policy(0.0)),
        (["--disable-force-detach-on-timeout"], Policy(0.0)),
        (["--disable-force-detach-on-timeout=true"], Policy(0.0)),
        (["--disable-force-detach-on-timeout=false"], Policy()),
        (["--node-deletion-confirms-death=all"], Policy(360.0, True)),
        (["--node-deletion-confirms-death=pods"], Policy()),
        (["--node-deletion-confirms-death=never"], Policy()),
    ],
)
def test_the_policy(words: list[str], policy: Policy):
    assert given(*words)[0].policy == policy


def test_what_is_known_of_drivers():
    found, attacher = given(
        "--detach-revokes-access=a.example.com=true",
        "--detach-revokes-access=b.example.com=false",
        "--disable-attach-detach-for=c.example.com",
        "--attach-concurrency=example.com/disk=3",
        "--attach-workers=4",
        "--disable-attach-detach-reconcile-sync",
    )
    assert found.revokes == {"a.example.com": True, "b.example.com": False}
    assert found.left_out == {"c.example.com"}
    assert (attacher.concurrency, attacher.workers, attacher.verify_period_s) == (
        {"example.com/disk": 3},
        4,
        0.0,
    )


@pytest.mark.parametrize(
    "word",
    [
        "--detach-revokes-access=a.example.com",
        "--attach-concurrency=a=0",
        "--force-detach-after=soon",
        "--disable-force-detach-on-timeout=perhaps",
    ],
)
def test_what_has_another_form_is_a_usage_error(word: str):
    with pytest.raises(click.UsageError):
        given(word)


def test_only_the_attach_detach_controller_can_merely_observe():
    result = CliRunner().invoke(cli, ["controller", "--controllers=attachdetach,attacher", "--observe"])
    assert result.exit_code == 2
    assert "--controllers=attachdetach" in result.output


@pytest.mark.parametrize(("word", "elects"), [("--leader-elect", True), ("--leader-elect=false", False)])
def test_leader_election_is_asked_for_as_upstream_does(word: str, elects: bool):
    context = controller.make_context("controller", ["--controllers=podgc", word])
    assert context.params["leader_elect"] is elects


def test_the_commands_of_an_operator_say_what_they_do():
    for words, said in (
        (["break-attachment", "--help"], "content is lost"),
        (["node", "confirm-dead", "--help"], "void once it reports again"),
        (["agent", "--help"], "--enable-controller-attach-detach"),
    ):
        result = CliRunner().invoke(cli, words)
        assert result.exit_code == 0
        assert said in " ".join(result.output.split())
