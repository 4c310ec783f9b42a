"""Why an object is stuck, in plain words: the controllers' own decisions, run on what a cluster says.

`snapshot` reads, `pods`, `claims`, `volumes` and `nodes` explain one object each (pure), `text` prints. What is said
of a decision is the decision's own `Reason`: the same that the controller logs and writes in its events.
"""
