"""The attacher: carries out VolumeAttachments by calling plugins and CSI drivers, and stores
their answers."""
