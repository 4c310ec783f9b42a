"""The attach/detach controller: decides which node has which volume.

Writes VolumeAttachments and `node.status.volumesAttached`. Where to begin: `handshake.Handshake.detach` is
the walk of a detach, `decide.decide` says when one is begun, `release.may_release` when the volume may be
taken from its node. docs/protocol.md is the law behind them.
"""
