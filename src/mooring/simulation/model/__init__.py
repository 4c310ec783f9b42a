"""An exhaustive check of the handshake: every state that a small cluster can reach, over the production
decisions.

`state` is what there is, `decisions` asks the production functions about it, `moves` (of `leaders`, `agents`,
`attacher` and the `environment`) is what may happen next, `search` visits all of it, `settings` says which
parts and faults take part, and `runs` which searches are made. What it means and leaves out: docs/model.md.
"""
