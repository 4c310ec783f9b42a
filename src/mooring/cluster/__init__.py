"""One machine's cluster: starts and supervises the parts for `mooring up`, and takes them down without a
trace.

May import everything; nothing imports it but the command line.
"""
