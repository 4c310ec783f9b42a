"""The pytest plugin, as a test suite of others uses it."""

from __future__ import annotations

import shutil

import pytest

pytest_plugins = ["pytester"]
POD = """
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web"},
    "spec": {"containers": [{"name": "main", "image": "app", "command": ["run"]}]},
}
"""


@pytest.fixture(autouse=True)
def alone(pytester: pytest.Pytester) -> None:
    """Only what `pip install mooring[testing]` brings is loaded."""
    pytester.makeini(
        "[pytest]\naddopts = -p no:cacheprovider -p no:asyncio -p no:timeout -p no:xdist -p no:kopf\n"
    )


def test_a_test_has_a_cluster_in_which_pods_run(pytester: pytest.Pytester):
    pytester.makepyfile(
        POD
        + """
def test_a_pod_runs(mooring_cluster):
    mooring_cluster.apply(POD)
    mooring_cluster.eventually(lambda: mooring_cluster.get("pod/web")["status"]["phase"] == "Running")

def test_each_test_has_a_cluster_of_its_own(mooring_cluster):
    assert mooring_cluster.get("pod/web") is None
"""
    )
    pytester.runpytest_subprocess("-q").assert_outcomes(passed=2)


def test_other_clients_use_its_kubeconfig(pytester: pytest.Pytester):
    pytest.importorskip("kubernetes")
    pytester.makepyfile("""
from kubernetes import client, config

def test_its_nodes_are_ready(mooring_cluster):
    api = client.CoreV1Api(config.new_client_from_config(str(mooring_cluster.kubeconfig)))
    nodes = api.list_node().items
    assert [node.metadata.name for node in nodes] == list(mooring_cluster.nodes)
    assert all(c.status == "True" for node in nodes for c in node.status.conditions if c.type == "Ready")
""")
    pytester.runpytest_subprocess("-q").assert_outcomes(passed=1)


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl on the PATH")
def test_kubectl_uses_its_kubeconfig(pytester: pytest.Pytester):
    pytester.makepyfile("""
import subprocess

def test_its_nodes_are_ready(mooring_cluster):
    words = ["kubectl", "--kubeconfig", mooring_cluster.kubeconfig, "get", "nodes", "--no-headers"]
    lines = subprocess.check_output(words, text=True).splitlines()
    assert [line.split()[:2] for line in lines] == [["node-1", "Ready"], ["node-2", "Ready"]]
""")
    pytester.runpytest_subprocess("-q").assert_outcomes(passed=1)


def test_a_wait_in_vain_fails_with_what_mooring_why_says(pytester: pytest.Pytester):
    pytester.makepyfile(
        POD
        + """
def test_a_pod_runs(mooring_cluster):
    POD["spec"]["nodeSelector"] = {"disk": "fast"}
    mooring_cluster.apply(POD)

    def the_pod_runs():
        assert mooring_cluster.get("pod/web")["status"]["phase"] == "Running"
        return True

    mooring_cluster.eventually(the_pod_runs, within=1)
"""
    )
    result = pytester.runpytest_subprocess("-q")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*NotYet: not so within 1 s: the_pod_runs",
            "*last seen: AssertionError: *'Pending' == 'Running'*",
            "*mooring why pod/web:",
            "*pod/default/web*",
            "*0/2 nodes are available*",
        ]
    )


def test_an_api_server_alone_does_nothing_by_itself(pytester: pytest.Pytester):
    pytester.makepyfile("""
def test_nothing_is_there(mooring_api):
    assert mooring_api.list("nodes") == []
    mooring_api.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}})
    assert mooring_api.get("configmap/a")["data"] == {"k": "v"}
""")
    pytester.runpytest_subprocess("-q").assert_outcomes(passed=1)


def test_a_suite_says_what_its_clusters_are_made_of(pytester: pytest.Pytester):
    pytester.makeconftest("""
import pytest
from mooring.testing import Options

@pytest.fixture(scope="session")
def mooring_options():
    return Options(nodes=3, controllers=["scheduling"])
""")
    pytester.makepyfile("""
def test_its_nodes(mooring_cluster):
    assert mooring_cluster.nodes == ("node-1", "node-2", "node-3")
""")
    pytester.runpytest_subprocess("-q").assert_outcomes(passed=1)


def test_real_nodes_are_skipped_with_the_reason_where_there_can_be_none(pytester: pytest.Pytester):
    pytester.makeconftest("import os\nos.geteuid = lambda: 1000\n")
    pytester.makepyfile("def test_it(mooring_nodes): pass")
    result = pytester.runpytest_subprocess("-q", "-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*mooring_nodes: needs root*"])


def test_real_nodes_are_skipped_with_what_the_machine_lacks(pytester: pytest.Pytester):
    pytester.makeconftest("""
import os
from mooring.testing import machine_cluster
from mooring.cluster.doctor.diagnosis import Facts

os.geteuid = lambda: 0
machine_cluster.examine = lambda *_, **__: Facts(root=True, missing=frozenset({"blkid"}))
""")
    pytester.makepyfile("def test_it(mooring_nodes): pass")
    result = pytester.runpytest_subprocess("-q", "-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*mooring_nodes: not installed: blkid (apt-get install util-linux)*"])


def test_a_run_without_its_fixtures_loads_nothing_of_mooring(pytester: pytest.Pytester):
    pytester.makepyfile("""
import sys

def test_it():
    loaded = {name for name in sys.modules if name.split(".")[0] == "mooring"}
    assert loaded == {"mooring", "mooring.testing", "mooring.testing.plugin"}
""")
    pytester.runpytest_subprocess("-q").assert_outcomes(passed=1)
