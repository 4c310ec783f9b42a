"""`disk.mooring.dev`: the disk array of this machine as a CSI driver; the example of a driver on
`mooring.csi.driver`.

`controller` acts on the array, `node` on the mounts of one node, `values` checks parameters and capabilities,
`driver` assembles them. It serves any orchestrator: it imports `csi`, `mounts` and the array, and nothing of
Kubernetes.
"""
