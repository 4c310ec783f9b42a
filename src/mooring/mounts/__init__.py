"""Mount tables, file systems, loop devices: what the kernel knows about storage on this machine.

A leaf: it knows nothing of Kubernetes and imports nothing of Mooring. Callers take a `Mounts`
(`mooring.mounts.interface`), of which `mooring.mounts.host.HostMounts` is the real one.
"""
