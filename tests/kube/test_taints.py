"""Which toleration matches which taint."""

from __future__ import annotations

import pytest

from mooring.kube.objects import Pod, PodSpec, Taint, Toleration
from mooring.kube.taints import matching, tolerates

TAINT = Taint(key="k", value="v", effect="NoExecute")


@pytest.mark.parametrize(
    ("toleration", "matches"),
    [
        (Toleration(key="k", value="v", effect="NoExecute"), True),
        (Toleration(key="k", operator="Equal", value="v", effect="NoExecute"), True),
        (Toleration(key="k", operator="Exists", effect="NoExecute"), True),
        (Toleration(key="k", operator="Exists"), True),
        (Toleration(operator="Exists"), True),
        (Toleration(key="k", value="other", effect="NoExecute"), False),
        (Toleration(key="other", operator="Exists"), False),
        (Toleration(key="k", operator="Exists", effect="NoSchedule"), False),
        (Toleration(), False),
        (Toleration(key="k", operator="Gt", value="v"), False),
    ],
)
def test_a_toleration_matches_by_key_operator_value_and_effect(toleration: Toleration, matches: bool):
    assert tolerates(toleration, TAINT) is matches


def test_a_pods_matching_tolerations_are_all_of_them():
    both = (Toleration(operator="Exists", toleration_seconds=5), Toleration(key="k", operator="Exists"))
    pod = Pod(spec=PodSpec(tolerations=(*both, Toleration(key="x"))))
    assert matching(pod, TAINT) == list(both)
