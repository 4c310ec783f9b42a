"""An exhaustive check of the handshake: every state that a small cluster can reach, over the production decisions.

`world` is what there is, `decisions` asks the production functions about it, `moves` is what may happen next, `search`
visits all of it, `settings` says which parts and faults take part. What it means and leaves out: docs/model.md.
"""
