"""The generated reference, and the man pages: all commands, flags, metrics and events."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from scripts.docs_site import commands, declared, interfaces, kinds, man

import mooring.testing
from mooring.controllers.fencing.kinds import FENCING_KINDS
from mooring.kube import metrics as live


def test_the_page_of_commands_has_each_command_and_each_flag(pages: Path):
    page = (pages / "reference" / "commands.md").read_text()
    for command in commands.walk(commands.tree()):
        assert f"\n## {command.path}\n" in page
        for option in command.options:
            assert option.flags.replace("|", "\\|") in page


def test_every_command_says_what_it_does_in_a_sentence():
    assert [command.path for command in commands.walk(commands.tree()) if not command.summary] == []


def test_the_page_of_metrics_has_those_that_a_process_registers(pages: Path):
    page = (pages / "reference" / "metrics.md").read_text()
    own = [
        family.name
        for family in live.REGISTRY.collect()
        if not family.name.startswith(("python_", "process_"))
    ]
    assert own
    assert [name for name in own if f"`{name}" not in page] == []
    assert {"csi_operations_seconds", "aws_ebs_csi_api_request_errors_total"} <= {
        m.name for m in declared.metrics()
    }


def test_a_metric_has_its_labels_and_its_text(pages: Path):
    page = (pages / "reference" / "metrics.md").read_text()
    row = next(line for line in page.splitlines() if "`mooring_fencing_orders_total`" in line)
    assert "`mechanism`, `outcome`" in row
    assert "Orders to mechanisms" in row
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| `")]
    assert [row[0] for row in rows if not row[3].strip()] == [], "metrics of which nothing is said"


def test_the_page_of_kinds_has_each_field_with_what_it_says(pages: Path):
    page = (pages / "reference" / kinds.NAME).read_text()
    for kind in FENCING_KINDS:
        part = page.partition(f"\n## {kind['spec']['names']['kind']}\n")[2].partition("\n## ")[0]
        rows = {line.split("`")[1]: line for line in part.splitlines() if "| `" in line or "| **`" in line}
        found = {path for path, _, _ in kinds.fields(kinds.schema_of(kind["spec"]))}
        assert {path for path in found if path.startswith(("spec", "status"))} == set(rows)
        assert [row for row in rows.values() if row.endswith("|  |")] == [], "fields of which nothing is said"


def test_a_field_has_its_type_its_bounds_and_its_rules(pages: Path):
    page = (pages / "reference" / kinds.NAME).read_text()
    row = next(line for line in page.splitlines() if line.startswith("| `spec.ladder[].retries`"))
    assert "integer (at least 0, at most 5)" in row
    row = next(line for line in page.splitlines() if line.startswith("| **`spec.ladder`**"))
    assert "list of object (at most 10 items)" in row
    assert "Rule: a rung is not confirmed by itself." in page


def test_all_that_mooring_testing_gives_is_in_the_reference():
    (named,) = (objects for name, _, _, objects in interfaces.PAGES if name == "python-testing.md")
    assert set(mooring.testing.__all__) <= {each.rpartition(".")[2] for each in named}


def test_each_command_has_a_man_page(tmp_path: Path):
    names = {path.name for path in man.write(tmp_path)}
    assert {"mooring.1", "mooring-up.1", "mooring-node-cut.1"} <= names
    assert len(names) == len(list(commands.walk(commands.tree())))


@pytest.mark.skipif(shutil.which("groff") is None, reason="needs groff: apt-get install groff-base")
def test_roff_reads_every_man_page_without_a_warning(tmp_path: Path):
    paths = man.write(tmp_path)
    done = subprocess.run(
        ["groff", "-man", "-ww", "-z", *paths],
        check=False,
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin"},
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_text_is_no_request_of_roff():
    command = commands.Command("mooring x", "", (".so /etc/passwd",), (commands.Option("--a\\b", "'c"),), ())
    page = man.roff(command).splitlines()
    assert "\\&.so /etc/passwd" in page
    assert ".B \\-\\-a\\eb" in page
    assert "\\&'c" in page
