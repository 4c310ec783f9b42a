"""A cluster of real kubelets on this machine: what Mooring meets where it did not choose the nodes.

The real kube-apiserver, scheduler and kube-controller-manager (without its attach/detach controller), nodes
with the real kubelet, containerd and runc, and Mooring's controllers with the rights of `deploy/`.
All of it lives in a network of its own; a node has namespaces, a network and cgroups of its own, so that it
can be cut off or lose its power.
"""
