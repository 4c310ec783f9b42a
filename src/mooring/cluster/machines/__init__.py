"""What a node of `mooring up` runs on: one interface (`interface`), and its kinds.

`namespace` is a set of namespaces of this host (the default), `uml` a User-mode Linux with a
kernel of its own, `qemu` a virtual machine. `node_machine` boots, stops and watches a machine whatever its
kind; `cgroup` says what is true of its power.
"""
