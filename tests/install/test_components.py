"""What `mooring install` prints: the objects of `deploy/`, labelled, with what the cluster's owner chose."""

from __future__ import annotations

import pytest
import yaml
from click.testing import CliRunner

from mooring.cli.main import cli
from mooring.install.components import (
    COMPONENT,
    COMPONENTS,
    MANIFESTS,
    PART_OF,
    VERSION,
    Settings,
    Unknown,
    objects,
)

SETTINGS = Settings("registry.example.com/mooring:1")


def printed(*words: str) -> list[dict[str, object]]:
    result = CliRunner().invoke(cli, ["install", *words])
    assert result.exit_code == 0, result.output
    return list(yaml.safe_load_all(result.output))


@pytest.mark.parametrize("name", COMPONENTS)
def test_every_object_says_what_it_belongs_to(name: str):
    for each in objects([name], SETTINGS):
        labels = each["metadata"]["labels"]
        assert (labels[PART_OF], labels[COMPONENT]) == ("mooring", name)
        assert labels[VERSION]


@pytest.mark.parametrize("name", COMPONENTS)
def test_no_container_is_left_with_the_name_that_stands_for_the_image(name: str):
    for each in objects([name], SETTINGS):
        for container in each.get("spec", {}).get("template", {}).get("spec", {}).get("containers", []):
            assert container["image"] == SETTINGS.image


def test_labels_of_pods_and_selectors_are_as_the_files_say():
    """They are immutable: an update of what was installed from the files would be refused."""
    (made,) = [each for each in objects(["attach-detach"], SETTINGS) if each["kind"] == "Deployment"]
    files = yaml.safe_load_all((MANIFESTS / "attach-detach.yaml").read_text())
    (file,) = [each for each in files if each["kind"] == "Deployment"]
    assert made["spec"]["selector"] == file["spec"]["selector"]
    assert made["spec"]["template"]["metadata"] == file["spec"]["template"]["metadata"]


def test_replicas_are_those_of_each_controller():
    made = objects(["attach-detach", "fencing"], Settings("x", replicas=3))
    assert [each["spec"]["replicas"] for each in made if each["kind"] == "Deployment"] == [3, 3]


def test_an_observer_is_one_and_no_candidate():
    made = printed("--image", "x", "--observe", "--replicas", "3", "--components", "attach-detach,fencing")
    deployments = {each["metadata"]["name"]: each for each in made if each["kind"] == "Deployment"}  # type: ignore[index]
    spec = deployments["mooring-attach-detach"]["spec"]
    args = spec["template"]["spec"]["containers"][0]["args"]  # type: ignore[index]
    assert spec["replicas"] == 1  # type: ignore[index]
    assert "--observe" in args
    assert not [each for each in args if each.startswith("--leader-elect")]
    assert deployments["mooring-fencing"]["spec"]["replicas"] == 3  # type: ignore[index]


@pytest.mark.parametrize(
    ("names", "says"),
    [
        ((), "no component is named"),
        (("attach-detatch",), "there is no component 'attach-detatch'"),
        (("ebs-driver", "ebs-driver-node-only"), "are forms of one thing"),
    ],
)
def test_components_that_there_are_not_are_refused(names: tuple[str, ...], says: str):
    with pytest.raises(Unknown, match=says):
        objects(names, SETTINGS)


def test_a_component_that_is_named_twice_is_there_once():
    assert objects(["attach-detach", "attach-detach"], SETTINGS) == objects(["attach-detach"], SETTINGS)


def test_without_an_image_nothing_is_printed():
    result = CliRunner().invoke(cli, ["install"])
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "--image" in result.stderr


def test_the_components_are_listed():
    listed = CliRunner().invoke(cli, ["install", "--components", "list"]).output
    assert [line.split()[0] for line in listed.splitlines()] == list(COMPONENTS)
