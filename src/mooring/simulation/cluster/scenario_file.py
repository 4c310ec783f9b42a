"""Reads a scenario from a file, and says what is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import yaml

from mooring.controllers.fencing.host_agent import KIND as HOST_AGENT
from mooring.controllers.fencing.policies import problems_of
from mooring.kube.objects import ObjectMeta
from mooring.kube.objects.fencing import FencePolicy
from mooring.simulation.cluster.cloud_faults import cloud_settings
from mooring.simulation.cluster.fencing import policy_of
from mooring.simulation.cluster.plan import ACTIONS, WITH_FENCES, faults_of, processes_of
from mooring.simulation.cluster.scenario import Scenario
from mooring.simulation.cluster.workloads import KINDS as WORKLOADS
from mooring.simulation.cluster.workloads import STATIC
from mooring.simulation.parts.fence_device import KINDS, STORAGE_KINDS
from mooring.simulation.parts.plugins import DRIVERS
from mooring.simulation.parts.storage import KINDS as STORAGES

BOOL = "tag:yaml.org,2002:bool"


class ScenarioError(Exception):
    """The scenario's file does not say what it should."""


class _Loader(yaml.SafeLoader):
    """`on` is a word here, not a truth value."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - as in its base
        first: [(tag, form) for tag, form in forms if tag != BOOL]
        for first, forms in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


_Loader.add_implicit_resolver(BOOL, re.compile("true|false"), ["t", "f"])  # pyright: ignore[reportUnknownMemberType]


def read_scenario(path: Path) -> Scenario:
    """Raises `ScenarioError`, naming the file and what is wrong."""
    try:
        document: Any = yaml.load(path.read_text(), _Loader) or {}  # nosec B506 # a SafeLoader
        scenario = msgspec.convert(document, Scenario)
    except (OSError, TypeError, yaml.YAMLError, msgspec.ValidationError) as error:
        raise ScenarioError(f"{path}: {error}") from None
    for wrong in _wrong(scenario):
        raise ScenarioError(f"{path}: {wrong}")
    return scenario


def _wrong(scenario: Scenario) -> Iterator[str]:
    parts = [*scenario.node_names, *processes_of(scenario)]
    faults = [*faults_of(scenario), *(WITH_FENCES if scenario.fenced or scenario.shut_out else ())]
    yield from _unknown("only", scenario.only, faults)
    yield from _unknown("on", scenario.on, ["nodes", "controllers", *parts])
    yield from _unknown("weights", scenario.weights, [*faults, *ACTIONS])
    yield from _unknown("workloads", scenario.workloads, scenario.sets)
    yield from _unknown("workloads", scenario.workloads.values(), WORKLOADS)
    yield from _unknown("histories", scenario.histories, scenario.sets)
    yield from _unknown("storage", [scenario.storage], STORAGES)
    yield from _unknown("driver", [scenario.driver], DRIVERS)
    if scenario.driver != "plugin" and not STATIC.isdisjoint(scenario.workloads.values()):
        yield f"workloads: static volumes are a plugin's: they cannot be played with driver: {scenario.driver}"
    if scenario.driver == "ebs":
        yield from _wrong_cloud(scenario)
    if scenario.fencing:
        yield from _wrong_policy(scenario)
    yield from _unknown("steps", [step.what for step in scenario.steps], [*faults, *ACTIONS])
    places = [*parts, *scenario.sets, "server", "array", "ec2", "api"]
    yield from _unknown("steps", [step.on for step in scenario.steps], places)
    for step in scenario.steps:
        if step.at >= scenario.heal_s:
            yield f"steps: {step.what} at {step.at:g} s: from {scenario.heal_s:g} s on everything is healed"


def _wrong_cloud(scenario: Scenario) -> Iterator[str]:
    if not 1 <= scenario.zones <= min(scenario.nodes, 6):
        yield f"zones: {scenario.zones}; there are 1 to 6, and a node in each"
        return
    try:
        cloud_settings(scenario, Random(0))
    except ValueError as error:
        yield f"cloud: {error}"


def _wrong_policy(scenario: Scenario) -> Iterator[str]:
    try:
        policy = FencePolicy(metadata=ObjectMeta(name="policy"), spec=policy_of(scenario.fencing))
    except msgspec.ValidationError as error:
        yield f"fencing: {error}"
        return
    mechanisms = dict.fromkeys([*KINDS, *STORAGE_KINDS, HOST_AGENT], "")
    yield from (f"fencing: {each}" for each in problems_of(policy, mechanisms))


def _unknown(field: str, names: Iterable[str], known: Iterable[str]) -> Iterator[str]:
    there = list(known)
    yield from (
        f"{field}: there is no {each}; there are {', '.join(there)}" for each in names if each not in there
    )
