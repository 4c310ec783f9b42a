"""What runs inside a machine with a kernel of its own: its first process, before and beside the node agent.

Standard library only, and few modules of it: each costs time at every boot, and memory as long as the machine
runs.
"""
