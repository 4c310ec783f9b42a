"""The node agent: registers a Node, runs the pods bound to it, attaches their volumes to the file system.

It meets the controllers only in the API server. See `agent` for its way of working.
"""
