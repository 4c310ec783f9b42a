"""docs/cloud.md and docs/ebs.md say all that there is to be set, and nothing that there is not."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from mooring.cli.cloud import parsed
from mooring.cli.ebs_driver import ebs_driver
from mooring.cloud.cloud import ACTIONS
from mooring.cloud.requests.quotas import quota_of
from mooring.cloud.settings import Fault, Settings
from mooring.csi.errors import CsiError
from mooring.ebs.controller_service import tags
from mooring.ebs.controller_service.error_codes import CODES
from mooring.ebs.controller_service.parameters import change, snapshot_tags, volume_parameters
from mooring.ebs.controller_service.volume_types import TYPES
from mooring.ebs.formatting import check_format
from mooring.ebs.options import CONTROLLER_FLAGS, NODE_FLAGS, flag

from .references import ROOT

CLOUD, EBS = ((ROOT / "docs" / name).read_text() for name in ("cloud.md", "ebs.md"))
TEXT = CLOUD + EBS
ANY = "nonsense"


def section(page: str, title: str) -> str:
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    assert found, f"there is no section {title!r}"
    return found[1]


def rows(text: str) -> list[list[str]]:
    """The cells of all tables' rows, without their heads."""
    lines = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("|---")]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]


def words(text: str) -> list[str]:
    """What is written as code."""
    return re.findall(r"`([^`]+)`", text)


# --- the cloud


def test_the_actions_of_the_page_are_those_of_the_cloud():
    assert sorted(words(section(CLOUD, "Actions").partition("\n\nEach has")[0])) == sorted(ACTIONS)


def settings() -> dict[str, str]:
    return {name.strip("`"): default.strip("`") for name, default, *_ in rows(section(CLOUD, "Settings"))[1:]}


def test_every_setting_is_on_the_page_and_every_one_of_the_page_exists():
    assert set(settings()) == set(Settings.__struct_fields__)


@pytest.mark.parametrize(("name", "default"), settings().items())
def test_the_default_of_a_setting_is_what_the_page_says(name: str, default: str):
    assert Settings().changed(parsed([f"{name}={default}"])) == Settings()


def test_the_fields_of_a_fault_are_those_of_the_page():
    listed = re.search(r"A fault is `\{(.+?)\}`", CLOUD)
    assert listed
    assert tuple(json.loads(f"[{listed[1]}]")) == Fault.__struct_fields__


def quotas() -> list[tuple[str, float, float]]:
    found: list[tuple[str, float, float]] = []
    for actions, size, refill in rows(section(CLOUD, "Quotas"))[1:]:
        suffix = ":unfiltered" if "without filter" in actions else ""
        found += [(action.rstrip(".") + suffix, float(size), float(refill)) for action in words(actions)]
    return found


@pytest.mark.parametrize(("bucket", "size", "refill"), quotas())
def test_the_quotas_of_the_page_are_those_of_the_cloud(bucket: str, size: float, refill: float):
    assert quota_of(bucket) == (size, refill)


def test_the_number_of_instance_types_is_right():
    from mooring.cloud.actions.instance_types import instance_types
    from mooring.ebs.node_service.volume_limits import table

    assert {re.sub(r"\D", "", each) for each in re.findall(r"([\d ]+) types", TEXT)} == {str(len(table()))}
    assert len(instance_types()) == len(table())


# --- the driver's flags and parameters


def flag_rows() -> list[list[str]]:
    return rows(section(EBS, "Flags").partition("\n\nEnvironment")[0])[1:]


def test_every_flag_is_on_the_page_and_every_one_of_the_page_exists():
    on_page = {name for row in flag_rows() for name in re.findall(r"--[a-z0-9-]+", row[0])}
    there = {name for each in ebs_driver.params for name in each.opts if name.startswith("--")}
    assert on_page == there


@pytest.mark.parametrize(("mode", "fields"), [("controller", CONTROLLER_FLAGS), ("node", NODE_FLAGS)])
def test_the_modes_of_flags_are_what_the_page_says(mode: str, fields: Iterable[str]):
    on_page = {name for row in flag_rows() if row[2] == mode for name in re.findall(r"--[a-z0-9-]+", row[0])}
    assert on_page == {flag(name) for name in fields} - {"--csi-mount-point-prefix"}


def known(refused: Callable[[], object]) -> set[str]:
    """The keys that there are, in the words of a refusal."""
    with pytest.raises(CsiError) as caught:
        refused()
    return set(caught.value.message.partition("there are ")[2].split(", "))


def said_parameters() -> set[str]:
    table = rows(section(EBS, "Parameters"))[1:]
    aliases = {"fstype", "blockexpress"}  # they are named in the row of the one that counts
    return {name.lower() for row in table for name in words(row[0]) if "..." not in name} | aliases


def test_every_parameter_of_a_class_is_on_the_page_and_every_one_of_the_page_exists():
    assert said_parameters() == known(lambda: volume_parameters({ANY: ""}, {}))
    assert {"fstype", "blockExpress", "tagSpecification..."} <= set(words(section(EBS, "Parameters")))


def test_every_parameter_of_an_attributes_class_is_on_the_page():
    paragraph = section(EBS, "Parameters").partition("**VolumeAttributesClass**")[2].partition("\n\n")[0]
    mutable = known(lambda: volume_parameters({}, {ANY: ""}))
    always, _, when_changed = paragraph.partition("when it is changed also")
    assert mutable <= set(words(always))
    also = known(lambda: change({ANY: ""})) - mutable - set(tags.METADATA_TAGS)
    assert also <= set(words(when_changed))


def test_every_volume_type_is_on_the_page():
    [row] = [row for row in rows(section(EBS, "Parameters")) if row[0] == "`type`"]
    assert set(words(row[2])) == set(TYPES)


def test_every_tag_of_the_driver_is_on_the_page():
    ours = (
        tags.NAME_TAG,
        tags.SNAPSHOT_NAME_TAG,
        tags.CLUSTER_TAG,
        tags.CLUSTER_NAME_TAG,
        tags.IOPS_PER_GB_TAG,
    )
    on_page = words(" ".join(row[0] for row in rows(section(EBS, "Tags"))))
    assert {*ours, tags.AUTO_IOPS_TAG} <= set(on_page)


# --- its errors, permissions, metrics


def test_the_table_of_errors_is_the_one_that_the_driver_has():
    on_page = {
        (code, row[0].split()[0]) for row in rows(section(EBS, "Errors"))[1:] for code in words(row[1])
    }
    assert on_page == {(code, answer.name) for code, answer in CODES.items()}


def sources(*packages: str) -> str:
    """The text of all modules, with strings that continue on the next line joined."""
    files = (path for name in packages for path in sorted((ROOT / "src" / "mooring" / name).rglob("*.py")))
    return re.sub(r'"\s*\n\s*f?"', "", "\n".join(path.read_text() for path in files))


def ec2_actions() -> set[str]:
    from botocore.loaders import Loader

    described = cast("dict[str, Any]", cast(Any, Loader()).load_service_model("ec2", "service-2"))
    return set(described["operations"])


def test_the_policy_allows_exactly_the_actions_that_the_driver_calls():
    policy = json.loads(EBS.partition("```json\n")[2].partition("```")[0])
    allowed = {action.removeprefix("ec2:") for action in policy["Statement"][0]["Action"]}
    assert allowed == ec2_actions() & set(re.findall(r'"([A-Z]\w+)"', sources("ebs")))


def test_every_metric_of_the_page_is_counted():
    text = sources("ebs", "csi")
    for name, *_ in rows(section(EBS, "Metrics"))[1:]:
        parts = name.strip("`").removesuffix("_total").removeprefix("aws_ebs_csi_api_request")
        assert parts in text, name


RUNBOOK = rows(section(EBS, "3 a.m.: a pod stays in ContainerCreating"))[1:]


@pytest.mark.parametrize("on_page", sorted({each for row in RUNBOOK for each in words(row[0])}))
def test_what_the_runbook_quotes_is_said(on_page: str):
    text = sources("ebs", "mounts", "csi")
    parts = [part for part in on_page.split("...") if part.strip(" ,:")]
    assert parts
    assert [part for part in parts if part.strip() not in text] == []


def test_the_runbook_never_detaches_with_force():
    assert not re.search(r"`aws ec2 detach-volume[^`]*--force", EBS)


# --- the example


def example(kind: str) -> dict[str, Any]:
    objects = yaml.safe_load_all((ROOT / "examples" / "ebs.yaml").read_text())
    return next(each for each in objects if each["kind"] == kind)


def test_the_parameters_of_the_example_are_taken():
    parameters = cast("dict[str, str]", example("StorageClass")["parameters"])
    asked = volume_parameters(parameters, {})
    assert (asked.type, asked.iops, asked.encrypted, asked.tags) == ("gp3", 4000, True, {"team": "books"})
    assert check_format(parameters, parameters["csi.storage.k8s.io/fstype"], block=False) == {
        "inodesize": "512"
    }
    assert snapshot_tags(example("VolumeSnapshotClass")["parameters"]) == {"team": "books"}


def test_the_examples_commands_are_those_of_the_page():
    head = (ROOT / "examples" / "ebs.yaml").read_text().partition("apiVersion")[0]
    commands = re.findall(r"^#   (kubectl .+)$", head, re.MULTILINE)
    assert len(commands) > 5
    assert [each for each in commands if each not in EBS] == []


def test_the_readme_leads_to_both_pages():
    readme = Path(ROOT / "README.md").read_text()
    assert "(docs/cloud.md)" in readme
    assert "(docs/ebs.md)" in readme
