"""docs/attach-detach.md has all options and metrics; docs/upstream-tests.md a counterpart of each test."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from mooring.cli.parts import controller

from .references import ROOT, TEST

PAGES = {name: (ROOT / "docs" / name).read_text() for name in ("attach-detach.md", "upstream-tests.md")}
ROW = re.compile(r"^\| (.+?) \| (.+?) \|$", re.MULTILINE)


@pytest.mark.parametrize("row", [row for row in ROW.findall(PAGES["upstream-tests.md"]) if "`" in row[0]])
def test_every_test_of_upstream_has_a_counterpart(row: tuple[str, str]):
    assert TEST.search(row[1]), f"{row[0]}: no counterpart is named"


def test_every_option_of_the_page_exists_and_every_option_is_on_the_page():
    table = PAGES["attach-detach.md"].partition("## Options")[2].partition("## Metrics")[0]
    listed_names = set(re.findall(r"`(--[a-z-]+)", table))
    there = {name for each in controller.params for name in each.opts}
    others = {
        "--controllers",
        "--flex-volume-plugin-dir",
        "--kubeconfig",
        "--node-monitor-grace-period",
        "--plugin-setting",
        "--log-level",
    }
    assert listed_names == there - others


def test_every_metric_of_the_page_is_served():
    from mooring.controllers.attachdetach import metrics  # noqa: F401
    from mooring.controllers.attacher import metrics as of_attacher  # noqa: F401
    from mooring.kube.metrics import REGISTRY

    table = PAGES["attach-detach.md"].partition("## Metrics")[2].partition("## Runbook")[0]
    listed_names = {name.removesuffix("_total") for name in re.findall(r"^\| `(\w+)`", table, re.MULTILINE)}
    assert listed_names <= {metric.name for metric in REGISTRY.collect()}


def rules() -> list[Mapping[str, Any]]:
    objects = list(yaml.safe_load_all((ROOT / "deploy" / "attach-detach.yaml").read_text()))
    return [rule for each in objects if each["kind"] in ("ClusterRole", "Role") for rule in each["rules"]]


VERBS = {"POST": {"create"}, "PATCH": {"patch"}, "DELETE": {"delete"}, "GET": {"get", "list", "watch"}}


def allowed(sent: str) -> bool:
    """Whether the manifest's roles allow a request, as "METHOD path"."""
    method, path = sent.split()
    parts = [part for part in path.split("/") if part]
    group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
    rest = rest[2:] if rest[0] == "namespaces" else rest
    resource = rest[0] + (f"/{rest[2]}" if len(rest) > 2 else "")
    named = len(rest) > 1
    verbs = VERBS[method] if method != "GET" else ({"get"} if named else {"list", "watch"})
    return any(
        group in rule["apiGroups"] and resource in rule["resources"] and verbs <= set(rule["verbs"])
        for rule in rules()
    )


def test_the_roles_of_the_manifest_allow_what_the_controller_does(run: Any, now: Any):
    from csi_cluster import CsiCluster

    async def story() -> list[str]:
        cluster = CsiCluster(now)
        await cluster.start(annotations={"mooring.dev/refuses-second-attach": "false"})
        _, wire = cluster.controller()
        await cluster.volume("v")
        await cluster.pod("p", "v", "n0")

        async def listed() -> bool:
            return "v" in await cluster.listed("n0")

        async def gone() -> bool:
            return not await cluster.on("v")

        await cluster.until(listed)
        await cluster.end_pod("p")
        await cluster.until(gone)
        await cluster.until(lambda: any("/events" in each for each in wire.sent))
        return wire.sent

    sent = set(run(story()))
    assert {each.split()[0] for each in sent} == {"GET", "POST", "PATCH", "DELETE"}
    assert [each for each in sorted(sent) if not allowed(each)] == []
