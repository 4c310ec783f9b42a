"""The small scheduler of the embedded cluster: chooses a node for each pod, and for volumes
that wait for one."""
