"""The live page: nodes, volumes and pods as a cluster shows them, what is stuck and why, and the last hour.

`world` keeps a cluster's objects with the indices that explanations need; `rows` and `reasons` turn them into
compact rows (pure); `model` finds what has changed; `history` keeps the changes of the last hour; `life`
tells how a volume or a node came where it is; `export` writes one moment into one file. `following` feeds the
model from the API, `server` serves it to those whom `admission` lets in, and `assets` is the page itself.

It reads and never writes. Secrets are not among what it reads. It knows nothing of `cluster`: what is true of
machines and storage comes through `truth.Looks`.
"""
