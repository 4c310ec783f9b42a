"""The validation of objects, in upstream's order, with upstream's field paths and texts. Pure.

Every check takes a value and returns what is wrong with it, each error at a path relative to that value: a
valid object costs no path at all. `checks` has what checks are made of, `formats` the formats of text, the
other modules the rules of one subject each. Nothing here knows requests, the store, or what an object was
before (see the strategies).

Facts: `pkg/apis/*/validation` of Kubernetes 1.36 and `apimachinery/pkg/util/validation`.
`tests/differential/mutations` plays drawn mutations to the real kube-apiserver and to this one.
"""
