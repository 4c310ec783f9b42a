"""Why an object is stuck, in plain words: the controllers' own decisions, made on what a cluster shows.

`snapshot` reads; `explain_pods`, `explain_claims`, `explain_volumes`, `explain_nodes` and the like explain
one object each (pure); `text` prints. The explanation of a decision is its own `Reason`: the same one that
the controller logs and writes in its events.
"""
