"""The cluster's storage network: servers of NFS, iSCSI and NBD at addresses of their own, which machines
use and from which each machine can be shut out."""
