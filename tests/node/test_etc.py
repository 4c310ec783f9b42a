"""What a pod finds in /etc."""

from __future__ import annotations

from typing import Any

from mooring.kube.objects import ObjectMeta, Pod, PodSpec
from mooring.kube.objects.pods import HostAlias, PodDNSConfig
from mooring.node.pods.etc import etc_files, hosts_file, resolv_conf

HOST = "search example.org\nnameserver 192.0.2.1\noptions ndots:2 rotate\n"


def pod(**spec: Any) -> Pod:
    return Pod(metadata=ObjectMeta(name="web-0", namespace="default"), spec=PodSpec(**spec))


def test_a_pod_of_a_stateful_set_has_its_full_name() -> None:
    lines = hosts_file(pod(subdomain="web"), "web-0", "10.88.1.2").splitlines()
    assert lines[0] == "# Kubernetes-managed hosts file."
    assert "127.0.0.1\tlocalhost" in lines
    assert lines[-1] == "10.88.1.2\tweb-0.web.default.svc.cluster.local\tweb-0"


def test_with_the_hosts_network_the_hosts_file_is_its_own_with_the_aliases() -> None:
    aliases = (HostAlias("192.0.2.9", ("a", "b")),)
    files = etc_files(pod(host_aliases=aliases), "node-1", "", {"hosts": "127.0.0.1 localhost\n"})
    assert files["hosts"].splitlines() == [
        "# Kubernetes-managed hosts file (host network).",
        "127.0.0.1 localhost",
        "",
        "# Entries added by HostAliases.",
        "192.0.2.9\ta\tb",
    ]
    assert files["hostname"] == "node-1\n"


def test_dns_is_the_hosts_with_what_the_pod_adds() -> None:
    config = PodDNSConfig(
        ("192.0.2.2",), ("pod.example",), ({"name": "ndots", "value": "5"}, {"name": "edns0"})
    )
    assert resolv_conf(pod(), HOST) == "search example.org\nnameserver 192.0.2.1\noptions ndots:2 rotate\n"
    assert resolv_conf(pod(dns_config=config), HOST) == (
        "search example.org pod.example\nnameserver 192.0.2.1\nnameserver 192.0.2.2\noptions ndots:5 rotate edns0\n"
    )
    assert (
        resolv_conf(pod(dns_policy="None", dns_config=PodDNSConfig(("192.0.2.2",))), HOST)
        == "nameserver 192.0.2.2\n"
    )
