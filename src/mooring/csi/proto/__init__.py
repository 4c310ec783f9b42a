"""The messages of CSI and of plugin registration.

`csi_pb2` and `registration_pb2` are generated from the `.proto` files here when the package is built or
installed (`hatch_build.py`), and are not in version control.
"""
