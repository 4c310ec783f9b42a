"""The files that a pod's containers find in /etc: hosts, hostname, resolv.conf. Pure; contents as upstream's
kubelet.

There is no cluster DNS: the policies ClusterFirst and Default are the same.
"""

from __future__ import annotations

from mooring.kube.objects import Pod
from mooring.kube.objects.pods import PodDNSConfig

DOMAIN = "cluster.local"
MAX_SEARCHES = 32

_LOCAL = (
    ("127.0.0.1", "localhost"),
    ("::1", "localhost ip6-localhost ip6-loopback"),
    ("fe00::", "ip6-localnet"),
    ("fe00::", "ip6-mcastprefix"),
    ("fe00::1", "ip6-allnodes"),
    ("fe00::2", "ip6-allrouters"),
)


def etc_files(pod: Pod, name: str, address: str, host: dict[str, str]) -> dict[str, str]:
    """By name. `address` is the pod's own, "" if it has the host's network; `host` has the machine's own
    files."""
    hosts = hosts_file(pod, name, address) if address else host_hosts_file(pod, host.get("hosts", ""))
    return {
        "hosts": hosts,
        "hostname": f"{name}\n",
        "resolv.conf": resolv_conf(pod, host.get("resolv.conf", "")),
    }


def hosts_file(pod: Pod, name: str, address: str) -> str:
    """/etc/hosts of a pod with a network of its own."""
    own = name
    if pod.spec.subdomain:
        own = f"{name}.{pod.spec.subdomain}.{pod.namespace}.svc.{DOMAIN}\t{name}"
    lines = [f"{ip}\t{names}" for ip, names in (*_LOCAL, (address, own))]
    return "\n".join(["# Kubernetes-managed hosts file.", *lines, *_aliases(pod)]) + "\n"


def host_hosts_file(pod: Pod, of_host: str) -> str:
    """/etc/hosts of a pod that shares the machine's network."""
    return (
        "\n".join(["# Kubernetes-managed hosts file (host network).", of_host.rstrip("\n"), *_aliases(pod)])
        + "\n"
    )


def _aliases(pod: Pod) -> list[str]:
    lines = ["\t".join((alias.ip, *alias.hostnames)) for alias in pod.spec.host_aliases]
    return ["", "# Entries added by HostAliases.", *lines] if lines else []


def resolv_conf(pod: Pod, of_host: str) -> str:
    """The machine's, unless the policy is None, with what dnsConfig adds."""
    config = pod.spec.dns_config or PodDNSConfig()
    servers, searches, options = ([], [], {}) if pod.spec.dns_policy == "None" else _parse(of_host)
    servers = list(dict.fromkeys([*servers, *config.nameservers]))
    searches = list(dict.fromkeys([*searches, *config.searches]))[:MAX_SEARCHES]
    options |= {option["name"]: option.get("value") or "" for option in config.options}
    lines = [f"search {' '.join(searches)}"] if searches else []
    lines += [f"nameserver {server}" for server in servers]
    words = [f"{name}:{value}" if value else name for name, value in options.items()]
    lines += [f"options {' '.join(words)}"] if words else []
    return "".join(f"{line}\n" for line in lines)


def _parse(text: str) -> tuple[list[str], list[str], dict[str, str]]:
    """Name servers, search domains, options; of several search lines the last one holds."""
    servers: list[str] = []
    searches: list[str] = []
    options: dict[str, str] = {}
    for words in (line.split() for line in text.splitlines()):
        if words[:1] == ["nameserver"]:
            servers += words[1:2]
        elif words[:1] == ["search"]:
            searches = words[1:]
        elif words[:1] == ["options"]:
            options |= {name: value for name, _, value in (word.partition(":") for word in words[1:])}
    return servers, searches, options
