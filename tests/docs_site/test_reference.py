"""The generated reference, and the man pages: all commands, flags, metrics and events."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from scripts.docs_site import commands, declared, man

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
