"""What both plugins of Ceph clusters share: how a cluster is reached, and as whom (`cluster`)."""
