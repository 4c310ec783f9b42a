"""What plugins of SCSI disks share, whichever way the disks come to the node: the kernel's tables of them
(`disks`), orders to the kernel that may not end (`orders`), what is done with a disk that no pod needs any
more or that has grown (`paths`), and files of what was written down (`note_files`).

It knows no transport: which disk is meant is the plugin's to say.
"""
