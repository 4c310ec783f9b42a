"""Authentication and authorization: tokens, the rights as data, and the two judges that read them.

    tokens             bearer tokens of administrators, nodes and roles
    account_claims     what a token of a service account says; plain values
    account_tokens     those tokens: signed, for an audience, for a time
    identities         who sends a request: its token to a user, while what the token is bound to is there
    node_rights        the rights of a node, as a table; pure data
    roles              the rights of the other parts (controllers, sidecars), as rules of RBAC; pure data
    object_references  what a pod or a PersistentVolume names; pure
    node_graph         which objects belong to a node's pods; kept from the store's changes
    bindings           the rights of all others: Roles and ClusterRoles by their bindings
    authorizer         may this request be made, as far as its path and selectors tell?
    node_restriction   may a node make this very change of this very object?

Guarantees: a request that no rule allows is refused; both judges check every request of a user who is not an
administrator, whatever its verb, its kind of patch or its subresource. It must not know of sockets, encodings
or bodies as sent.
"""

from __future__ import annotations

from mooring.apiserver.access.authorizer import Attributes, Authorizer, attributes_of

__all__ = ["Attributes", "Authorizer", "attributes_of"]
