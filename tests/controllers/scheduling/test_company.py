"""Where other pods let a pod go."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from mooring.controllers.scheduling.company import (
    AFFINITY,
    ANTI_AFFINITY,
    EXISTING_ANTI_AFFINITY,
    REQUIRED,
    SPREAD,
    SPREAD_LABEL,
    Company,
    asks_for_namespaces,
    needs_company,
    obstacles,
)
from mooring.controllers.scheduling.decide import Action, Load, Obstacle, choose
from mooring.kube.objects import (
    Affinity,
    Condition,
    Namespace,
    Node,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodSpec,
    Taint,
)
from mooring.volumes.free_volumes import FreeVolumes

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


def node(name: str, zone: str = "", **spec: Any) -> Node:
    labels = {HOST: name} | ({ZONE: zone} if zone else {})
    ready = NodeStatus(conditions=(Condition(type="Ready", status="True"),))
    return Node(metadata=ObjectMeta(name=name, labels=labels), spec=NodeSpec(**spec), status=ready)


def pod(app: str = "", namespace: str = "default", affinity: Affinity | None = None, **spec: Any) -> Pod:
    labels = {"app": app} if app else {}
    metadata = ObjectMeta(name=f"{app}-0", namespace=namespace, labels=labels)
    return Pod(metadata=metadata, spec=PodSpec(affinity=affinity, **spec))


def term(app: str, key: str = HOST, **more: Any) -> dict[str, Any]:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}, **more}


def near(*terms: dict[str, Any]) -> Affinity:
    return Affinity(pod_affinity={REQUIRED: list(terms)})


def apart(*terms: dict[str, Any]) -> Affinity:
    return Affinity(pod_anti_affinity={REQUIRED: list(terms)})


def spread(app: str, key: str = HOST, **more: Any) -> tuple[dict[str, Any], ...]:
    rule = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    return ({"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}, **rule, **more},)


A1, A2, B1 = node("a1", "a"), node("a2", "a"), node("b1", "b")
NODES = (A1, A2, B1)


def verdicts(
    asking: Pod, *others: tuple[Pod, Node], nodes: tuple[Node, ...] = NODES, **company: Any
) -> list[str]:
    obstacle = obstacles(asking, nodes, Company(others, **company))
    return [obstacle(each) or "" for each in nodes]


def test_a_pod_goes_where_the_pods_of_its_affinity_are() -> None:
    web = pod("web", affinity=near(term("db")))
    assert verdicts(web, (pod("db"), A2)) == [AFFINITY, "", AFFINITY]
    assert verdicts(pod("web", affinity=near(term("db", ZONE))), (pod("db"), A2)) == ["", "", AFFINITY]


def test_one_pod_has_to_be_selected_by_all_terms() -> None:
    both = near(term("db", ZONE), {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"tier": "gold"}}})
    asking = pod("web", affinity=both)
    gold = Pod(metadata=ObjectMeta(name="g", namespace="default", labels={"tier": "gold"}))
    assert verdicts(asking, (pod("db"), A1), (gold, A1)) == [AFFINITY] * 3


def test_the_first_of_a_group_may_go_anywhere_where_the_label_is() -> None:
    unzoned = node("c1")
    web = pod("web", affinity=near(term("web", ZONE)))
    assert verdicts(web, nodes=(A1, unzoned)) == ["", AFFINITY]
    assert verdicts(web, (pod("web"), B1)) == [AFFINITY, AFFINITY, ""]
    assert verdicts(pod("web", affinity=near(term("db")))) == [AFFINITY] * 3


def test_a_pod_goes_where_no_pod_of_its_anti_affinity_is() -> None:
    web = pod("web", affinity=apart(term("web")))
    assert verdicts(web, (pod("web"), A1)) == [ANTI_AFFINITY, "", ""]
    assert verdicts(pod("web", affinity=apart(term("web", ZONE))), (pod("web"), A1)) == [
        ANTI_AFFINITY,
        ANTI_AFFINITY,
        "",
    ]


def test_any_term_of_an_anti_affinity_is_enough() -> None:
    web = pod("web", affinity=apart(term("db"), term("cache")))
    assert verdicts(web, (pod("db"), A1), (pod("cache"), B1)) == [ANTI_AFFINITY, "", ANTI_AFFINITY]


def test_the_anti_affinity_of_pods_that_run_keeps_a_pod_away() -> None:
    jealous = pod("db", affinity=apart(term("web", ZONE)))
    assert verdicts(pod("web"), (jealous, A1)) == [EXISTING_ANTI_AFFINITY, EXISTING_ANTI_AFFINITY, ""]
    assert verdicts(pod("other"), (jealous, A1)) == ["", "", ""]


@pytest.mark.parametrize(
    ("more", "selected"),
    [
        ({}, False),
        ({"namespaces": ["other"]}, True),
        ({"namespaces": ["default"]}, False),
        ({"namespaceSelector": {}}, True),
        ({"namespaceSelector": {"matchLabels": {"team": "red"}}}, True),
        ({"namespaceSelector": {"matchLabels": {"team": "blue"}}}, False),
        ({"namespaces": ["other"], "namespaceSelector": {"matchLabels": {"team": "blue"}}}, True),
    ],
)
def test_a_term_is_about_the_pods_of_its_namespaces(more: dict[str, Any], selected: bool) -> None:
    other = Namespace(metadata=ObjectMeta(name="other", labels={"team": "red"}))
    asking = pod("web", affinity=near(term("db", **more)))
    found = verdicts(asking, (pod("db", "other"), A1), namespaces={"other": other})
    assert (found[0] == "") is selected
    assert asks_for_namespaces(asking) is bool(more.get("namespaceSelector"))


def test_label_keys_add_the_pods_own_values_to_a_selector() -> None:
    def of(version: str, affinity: Affinity | None = None) -> Pod:
        labels = {"app": "web", "version": version}
        metadata = ObjectMeta(name=version, namespace="default", labels=labels)
        return Pod(metadata=metadata, spec=PodSpec(affinity=affinity))

    same = apart(term("web", matchLabelKeys=["version", "absent"]))
    unlike = apart(term("web", mismatchLabelKeys=["version"]))
    assert verdicts(of("2", same), (of("1"), A1), (of("2"), B1)) == ["", "", ANTI_AFFINITY]
    assert verdicts(of("2", unlike), (of("1"), A1), (of("2"), B1)) == [ANTI_AFFINITY, "", ""]


def test_a_term_without_a_selector_selects_nothing() -> None:
    assert verdicts(pod("web", affinity=apart({"topologyKey": HOST})), (pod("web"), A1)) == ["", "", ""]


def test_no_place_has_more_pods_than_the_skew_allows() -> None:
    web = pod("web", topology_spread_constraints=spread("web"))
    assert verdicts(web, (pod("web"), A1)) == [SPREAD, "", ""]
    assert verdicts(web, (pod("web"), A1), (pod("web"), A2), (pod("web"), B1)) == ["", "", ""]
    two = pod("web", topology_spread_constraints=spread("web", ZONE, maxSkew=2))
    assert verdicts(two, (pod("web"), A1), (pod("web"), A2)) == [SPREAD, SPREAD, ""]


def test_a_node_without_the_label_has_no_place_to_spread_over() -> None:
    web = pod("web", topology_spread_constraints=spread("web", ZONE))
    assert verdicts(web, nodes=(A1, node("c1"))) == ["", SPREAD_LABEL]


def test_too_few_places_count_as_if_one_were_empty() -> None:
    web = pod("web", topology_spread_constraints=spread("web", ZONE, minDomains=3))
    assert verdicts(web, (pod("web"), A1), (pod("web"), B1)) == [SPREAD] * 3


def test_places_where_the_pod_cannot_go_anyway_do_not_count() -> None:
    rule = spread("web", ZONE)
    only_a = pod("web", node_selector={ZONE: "a"}, topology_spread_constraints=rule)
    assert verdicts(only_a, (pod("web"), A1))[:2] == ["", ""]
    ignored = spread("web", ZONE, nodeAffinityPolicy="Ignore")
    all_of_it = pod("web", node_selector={ZONE: "a"}, topology_spread_constraints=ignored)
    assert verdicts(all_of_it, (pod("web"), A1))[:2] == [SPREAD, SPREAD]


def test_tainted_places_count_unless_taints_are_honoured() -> None:
    tainted = node("b1", "b", taints=(Taint(key="k", effect="NoSchedule"),))
    for policy, found in (({}, [SPREAD, SPREAD]), ({"nodeTaintsPolicy": "Honor"}, ["", ""])):
        web = pod("web", topology_spread_constraints=spread("web", ZONE, **policy))
        assert verdicts(web, (pod("web"), A1), nodes=(A1, A2, tainted))[:2] == found


def test_pods_that_are_being_deleted_and_those_of_other_namespaces_are_not_spread_over() -> None:
    web = pod("web", topology_spread_constraints=spread("web"))
    ending = Pod(
        metadata=ObjectMeta(name="e", namespace="default", labels={"app": "web"}, deletion_timestamp="x")
    )
    assert verdicts(web, (ending, A1), (pod("web", "other"), A1)) == ["", "", ""]


def test_a_preference_keeps_a_pod_from_nowhere() -> None:
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    wish = Affinity(pod_anti_affinity={preferred: [{"weight": 1, "podAffinityTerm": term("web")}]})
    anyway = spread("web", whenUnsatisfiable="ScheduleAnyway")
    web = pod("web", affinity=wish, topology_spread_constraints=anyway)
    assert verdicts(web, (pod("web"), A1)) == ["", "", ""]


def test_the_choice_says_what_other_pods_keep_the_pod_from() -> None:
    web = pod("web", affinity=apart(term("web")))
    company = Company([(pod("web"), each) for each in NODES])
    chosen = choose(web, (), NODES, FreeVolumes(), lambda _: Load(0), company=company)
    assert chosen.action is Action.WAIT and chosen.obstacles == {Obstacle.COMPANY}
    assert chosen.reason.message == f"0/3 nodes are available: 3 {ANTI_AFFINITY}."
    assert needs_company(web) and not needs_company(pod("web"))


pods_on = st.lists(st.tuples(st.sampled_from(["web", "db"]), st.sampled_from(NODES)), max_size=6)


@given(pods_on, st.sampled_from(["web", "db"]), st.sampled_from([HOST, ZONE]))
def test_a_pod_never_lands_beside_what_it_keeps_away_from(
    found: list[tuple[str, Node]], app: str, key: str
) -> None:
    others = [(pod(name), each) for name, each in found]
    obstacle = obstacles(pod("web", affinity=apart(term(app, key))), NODES, Company(others))
    for each in NODES:
        beside = any(
            name == app and where.metadata.labels[key] == each.metadata.labels[key] for name, where in found
        )
        assert (obstacle(each) is not None) is beside


@given(st.lists(st.sampled_from(NODES), max_size=9), st.sampled_from([HOST, ZONE]), st.integers(1, 3))
def test_after_any_allowed_placement_the_skew_is_what_it_may_be(
    places: list[Node], key: str, skew: int
) -> None:
    asking = pod("web", topology_spread_constraints=spread("web", key, maxSkew=skew))
    obstacle = obstacles(asking, NODES, Company([(pod("web"), each) for each in places]))
    counts = {each.metadata.labels[key]: 0 for each in NODES}
    for each in places:
        counts[each.metadata.labels[key]] += 1
    for each in NODES:
        fewest = min(counts.values())
        assert (obstacle(each) is None) is (counts[each.metadata.labels[key]] + 1 - fewest <= skew)
