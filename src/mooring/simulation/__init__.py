"""A whole cluster in one event loop with virtual time: the production code, played parts around it, faults,
invariants.

What is replaced is a closed list of seams: the transport (`network`), the clock and the randomness
(`choices`, `loop`), the store's log (`log`), mounts and processes of machines (`machine`), and the storage
(`array`; or, under the production cloud, the way to it and its devices: `ec2`, `ebs`). Everything else that
runs here is what runs in production, and nothing there knows of a simulation.
"""
