#!/usr/bin/env bash
# What a node of the lab runs as its first process, in namespaces of its own: node-init.sh NAME NUMBER FOLDER PROGRAMS API-SERVER
set -u
name=$1 number=$2 folder=$3 programs=$4
export PATH=$programs:/usr/sbin:/usr/bin:/sbin:/bin
hostname "$name"
mount -t tmpfs tmpfs /run; mkdir -p /run/lock
mount -t tmpfs tmpfs /var/log; mkdir -p /var/log/pods /var/log/containers
mkdir -p /var/lib/kubelet
mount -t tmpfs tmpfs /var/lib; mkdir -p /var/lib/kubelet /var/lib/containerd
mount --bind "$folder/kubelet" /var/lib/kubelet
mount --bind "$folder/containerd" /var/lib/containerd
# The kubelet would set these of the whole host.
for key in vm/overcommit_memory kernel/panic kernel/panic_on_oops; do
  cp "/proc/sys/$key" "$folder/played/${key#*/}"
done
echo 1 >"$folder/played/overcommit_memory"; echo 10 >"$folder/played/panic"; echo 1 >"$folder/played/panic_on_oops"
for key in vm/overcommit_memory kernel/panic kernel/panic_on_oops; do
  mount --bind "$folder/played/${key#*/}" "/proc/sys/$key"
done
cat /proc/sys/kernel/random/uuid >"$folder/played/boot_id"
mount --bind "$folder/played/boot_id" /proc/sys/kernel/random/boot_id
# The node's own cgroups, as the roots of the hierarchies.
for hierarchy in cpu cpuacct cpuset memory devices freezer blkio pids; do
  umount "/sys/fs/cgroup/$hierarchy" && mount -t cgroup -o "$hierarchy" cgroup "/sys/fs/cgroup/$hierarchy"
done
umount /sys/fs/cgroup/systemd && mount -t cgroup -o none,name=systemd cgroup /sys/fs/cgroup/systemd
umount /sys/fs/cgroup/unified && mount -t cgroup2 cgroup2 /sys/fs/cgroup/unified
mount --make-rshared /

until ip link show eth0 >/dev/null 2>&1; do sleep 0.02; done
ip link set lo up
ip address add "10.77.0.$((10 + number))/24" dev eth0
ip link set eth0 up
ip route add default via 10.77.0.1
echo 1 >/proc/sys/net/ipv4/ip_forward
# The one Service that pods ask for is the API server's: what kube-proxy would do.
nft -f - <<RULES
table ip services {
  chain pods { type nat hook prerouting priority dstnat; ip daddr 10.0.0.1 tcp dport 443 dnat to $5; }
  chain node { type nat hook output priority -100; ip daddr 10.0.0.1 tcp dport 443 dnat to $5; }
}
RULES

containerd --config "$folder/containerd.toml" >>"$folder/containerd.log" 2>&1 &
until ctr version >/dev/null 2>&1; do sleep 0.05; done
for image in "$folder"/../images/*.tar; do ctr -n k8s.io images import "$image" >>"$folder/images.log" 2>&1; done
# As a service manager would: a kubelet that ends is started again, unless the node's operator has stopped it.
while :; do
  if [ -e "$folder/kubelet-stopped" ]; then sleep 0.1; continue; fi
  kubelet --config="$folder/kubelet.yaml" --kubeconfig="$folder/kubeconfig" --hostname-override="$name" \
    --node-ip="10.77.0.$((10 + number))" --cert-dir=/var/lib/kubelet/pki --v=2 >>"$folder/kubelet.log" 2>&1 &
  echo $! >"$folder/kubelet.pid"
  wait $!
  sleep 0.2
done
