"""CSI: the messages (`mooring.csi.proto`), a client, and a base for drivers. Nothing here knows of Kubernetes."""
