"""CSI's controller service: volumes, attachments and snapshots of EC2.

Must not know of devices, mounts or this machine.
"""
