"""A whole cluster in one event loop with virtual time: the production code, played parts around it, faults,
invariants.

What is replaced is a closed list of seams. `engine` has the clock and the randomness (`event_loop`,
`randomness`); `parts` has the transport (`network`), the store's log (`store_log`), mounts and processes of
machines (`machine`), and the storage (`storage` and its plugins and drivers; or, under the production cloud,
the way to it and its devices: `ec2`, `ebs_driver`). All other code that runs is what runs in production, and
knows nothing of a simulation.

`cluster` puts the parts together and plays a plan of faults and users on them; `checks` says what must hold;
`run` plays one seed; `search` plays many and looks for violations; `model` visits every state of the
handshake. docs/architecture.md draws the floors.
"""
