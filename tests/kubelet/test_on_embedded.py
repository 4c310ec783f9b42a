"""Real kubelets on the embedded API server, with Mooring's controllers alone."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import time

import pytest
from tests.kubelet.lab.cluster import Cluster
from tests.kubelet.objects import pod, recorder

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]
AUDITED = re.compile(r"refused.*system:node:")
MEANT = re.compile(r"code=404 .*method=GET path=\S*/(nodes|csinodes|leases)/node-\d ")
"""What a kubelet asks for before it makes it."""
REFUSED = re.compile(
    r"forbidden|Forbidden|Unauthorized|could not find the requested resource|not a known|Failed to watch"
)


def test_a_stateful_sets_pod_writes_is_drained_and_comes_back_with_every_record(on_embedded: Cluster):
    lab = on_embedded
    lab.control.apply(recorder("drained"))
    first = lab.until_running("drained-0")
    before = lab.until("it has written", lambda: lab.read("drained-0", "/data/log"))
    lab.control.kubectl("drain", first["spec"]["nodeName"], "--ignore-daemonsets", "--delete-emptydir-data")
    second = lab.until_running("drained-0", not_uid=first["metadata"]["uid"])
    assert second["spec"]["nodeName"] != first["spec"]["nodeName"]
    assert lab.read("drained-0", "/data/log")[: len(before)] == before
    lab.control.kubectl("uncordon", first["spec"]["nodeName"])


def test_logs_commands_and_terminals_reach_its_containers(on_embedded: Cluster):
    lab = on_embedded
    lab.control.apply(pod("talks", "echo said; cat", container={"stdin": True}))
    lab.until_running("talks")
    assert lab.until("it has said it", lambda: lab.control.kubectl("logs", "talks")) == "said\n"
    told = _ends_are_told(lab)  # an older kubelet is not told that the input has ended (joined_sockets)
    reads = ["cat"] if told else ["sh", "-c", "read -r line; echo $line"]
    assert lab.control.kubectl("exec", "-i", "talks", "--", *reads, given="back\n") == "back\n"
    with pytest.raises(AssertionError, match="exit code 7"):
        lab.control.kubectl("exec", "talks", "--", "sh", "-c", "exit 7")
    attaching = subprocess.Popen(
        lab.control.command("attach", "-i", "talks"),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    with attaching:
        assert attaching.stdin is not None
        attaching.stdin.write("attached\n")
        attaching.stdin.close()
        lab.until("what was sent is in its log", lambda: "attached" in lab.control.kubectl("logs", "talks"))
        if not told:
            attaching.terminate()
    assert attaching.returncode == 0 or not told
    lab.control.kubectl("delete", "pod", "talks")


def _ends_are_told(lab: Cluster) -> bool:
    """Whether the kubelets are of 1.36 or newer."""
    node = lab.control.get("nodes")["items"][0]
    major, minor = node["status"]["nodeInfo"]["kubeletVersion"].lstrip("v").split(".")[:2]
    return (int(major), int(minor)) >= (1, 36)


def test_a_port_of_a_pod_is_reached_from_here(on_embedded: Cluster):
    lab = on_embedded
    lab.control.apply(pod("echoes", "nc -ll -p 8080 -e cat", container={}))
    lab.until_running("echoes")
    command = lab.control.command("port-forward", "pod/echoes", ":8080")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as forwarding:
        assert forwarding.stdout is not None
        port = re.search(r"127\.0\.0\.1:(\d+)", forwarding.stdout.readline())
        assert port is not None
        for word in (b"once", b"and again"):
            with socket.create_connection(("127.0.0.1", int(port[1])), timeout=30) as connection:
                connection.sendall(word)
                assert connection.recv(64) == word
        forwarding.terminate()
    lab.control.kubectl("delete", "pod", "echoes")


def test_a_kubelet_answers_this_api_server_alone(on_embedded: Cluster):
    address = on_embedded.control.get("node", "node-1")["status"]["addresses"][0]["address"]
    asked = ["curl", "-sk", "-o", "/dev/null", "-w", "%{http_code}", f"https://{address}:10250/pods"]
    assert subprocess.run(asked, check=True, capture_output=True, text=True).stdout == "401"


def test_a_pod_has_what_its_runtime_class_says_and_none_that_is_not_there(on_embedded: Cluster):
    lab = on_embedded
    lab.control.apply(
        {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {"name": "plain"},
            "handler": "runc",
            "overhead": {"podFixed": {"memory": "8Mi"}},
        },
        pod("classed", "sleep infinity", container={}, runtimeClassName="plain"),
    )
    assert lab.until_running("classed")["spec"]["overhead"] == {"memory": "8Mi"}
    with pytest.raises(AssertionError, match='RuntimeClass "other" not found'):
        lab.control.apply(pod("unclassed", "true", container={}, runtimeClassName="other"))
    lab.control.kubectl("delete", "pod", "classed")


def test_a_pod_has_its_service_accounts_token_and_asks_with_it_who_it_is(on_embedded: Cluster):
    lab = on_embedded
    lab.until("the account is there", lambda: lab.control.find("serviceaccount", "default"))
    sources = [
        {"serviceAccountToken": {"path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
    ]
    volume = {"name": "data", "projected": {"sources": sources}}
    lab.control.apply(pod("tokened", "sleep infinity", volume, serviceAccountName="default"))
    lab.until_running("tokened")
    token = lab.output("tokened", "cat", "/data/token")
    said = lab.control.kubectl("--token", token, "auth", "whoami", "-o", "yaml")
    assert "username: system:serviceaccount:default:default" in said
    assert lab.output("tokened", "cat", "/data/ca.crt").startswith("-----BEGIN CERTIFICATE-----")
    with pytest.raises(AssertionError, match="cannot list resource"):
        lab.control.kubectl("--token", token, "get", "secrets")
    lab.control.kubectl("delete", "pod", "tokened")


@pytest.mark.skipif(not os.environ.get("MOORING_SOAK"), reason="an hour: `make soak` plays it")
@pytest.mark.timeout(4500)
def test_for_an_hour_pods_come_and_go(on_embedded: Cluster):
    """So that the next test has something to read."""
    lab, began = on_embedded, time.monotonic()
    lab.control.apply(recorder("hourly", 4))
    while time.monotonic() - began < 3600:
        for name in lab.nodes:
            lab.until_running("hourly-3")
            lab.control.kubectl("drain", name, "--ignore-daemonsets", "--delete-emptydir-data")
            lab.control.kubectl("uncordon", name)
        time.sleep(20)
    lab.control.kubectl("delete", "statefulset", "hourly")


def test_nothing_that_a_kubelet_asks_for_is_refused_or_missing(on_embedded: Cluster):
    """The last of this file: it reads what the others have left in the kubelets' logs."""
    lines = [line for node in on_embedded.nodes.values() for line in node.log().splitlines()]
    assert any("Starting kubelet" in line for line in lines)
    assert [line for line in lines if REFUSED.search(line)] == []
    audit = [line for line in on_embedded.control.log().splitlines() if AUDITED.search(line)]
    assert [line for line in audit if not MEANT.search(line)] == []
