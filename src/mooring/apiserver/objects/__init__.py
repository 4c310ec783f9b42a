"""The kinds, and the rules by which their objects are created, changed and deleted. Pure but for `catalog`,
which follows the store.

    kinds, catalog     the kinds that every server has, and those of CustomResourceDefinitions beside them
    strategy           what may differ from kind to kind; `strategies` has the kinds that are special
    defaults           default values, as data
    validation         what makes an object invalid, in upstream's order and words
    typed_form         what a client sent, as a typed client would read it back
    metadata           what a client may set there, and what the server sets
    lifecycle          creation and update: from what was sent to what is stored
    deletion           graceful deletion, finalizers, preconditions
    managed_fields     server-side apply, on sets of fields (`field_sets`)
    patches            JSON patch, merge patch, strategic merge patch
    custom             kinds of CustomResourceDefinitions: schemas, pruning, columns

Must not know of requests, users, encodings as they travel, or sockets.
"""
