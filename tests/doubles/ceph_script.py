"""A real Ceph cluster as a shell script: a monitor, a store in memory, a metadata server."""

from __future__ import annotations

SERVES = r"""
set -e
D={directory} A={address} F=$(cat /proc/sys/kernel/random/uuid) U=$(cat /proc/sys/kernel/random/uuid)
mount -t tmpfs state $D
cat > $D/ceph.conf <<END
[global]
fsid = $F
mon_host = [v2:$A:3300,v1:$A:6789]
public_addr = $A
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_crush_chooseleaf_type = 0
mon_allow_pool_size_one = true
osd_objectstore = memstore
memstore_device_bytes = 1G
mon_data = $D/mon
osd_data = $D/osd
mds_data = $D/mds
keyring = $D/keyring
run_dir = $D
admin_socket = $D/\$name.asok
log_file = /dev/null
pid_file =
END
export CEPH_CONF=$D/ceph.conf
mkdir $D/mon $D/osd $D/mds
gen() { who=$1; shift; ceph-authtool $D/keyring $new --gen-key -n $who "$@"; new=; }
new=-C
gen mon. --cap mon 'allow *'
gen client.admin --cap mon 'allow *' --cap osd 'allow *' --cap mds 'allow *' --cap mgr 'allow *'
gen osd.0 --cap mon 'allow profile osd' --cap osd 'allow *' --cap mgr 'allow profile osd'
gen mds.a --cap mon 'allow profile mds' --cap osd 'allow *' --cap mds 'allow *'
gen client.pods --cap mon 'profile rbd, allow r' --cap osd 'profile rbd, allow rw pool=files' --cap mds 'allow rw'
monmaptool --create --fsid $F --addv a "[v2:$A:3300,v1:$A:6789]" $D/monmap
ceph-mon -i a --mkfs --monmap $D/monmap --keyring $D/keyring
ceph-mon -f -i a &
timeout 60 ceph osd new $U 0
ceph-osd -i 0 --mkfs --osd-uuid $U
ceph-osd -f -i 0 &
ceph-mds -f -i a &
timeout 60 sh -c 'until ceph osd stat | grep -q "1 up"; do sleep 0.3; done'
for pool in rbd meta files; do ceph osd pool create $pool 4; done
ceph osd pool application enable rbd rbd
ceph fs new shared meta files
timeout 60 sh -c 'until ceph mds stat | grep -q up:active; do sleep 0.3; done'
rbd create --size 64 one
rbd create --size 64 --image-feature layering old
ceph auth print-key client.pods > $D/key
echo serves
sleep 100000
"""
