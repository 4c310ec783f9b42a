"""What plugins of SCSI disks share, whichever way the disks come to the node: the kernel's tables of them
(`disks`), and what is done with a disk that no pod needs any more or that has grown (`paths`).

It knows no transport: which disk is meant is the plugin's to say.
"""
