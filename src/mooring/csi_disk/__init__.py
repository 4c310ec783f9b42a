"""`disk.mooring.dev`: the disk array of this machine as a CSI driver; the example of a driver on `mooring.csi.driver`."""
