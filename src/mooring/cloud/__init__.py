"""An EC2-compatible endpoint on this machine: volumes, attachments, snapshots, instances, with EC2's quotas and delays.

`cloud` is what EC2 does, without a wire: `Cloud.call` takes and gives what boto3 takes and gives. `query` is the wire
(EC2's query protocol, from botocore's own description of it), `server` the HTTP endpoint, instance metadata and the
control API. `devices` makes an attached volume a block device of its instance. It serves any client, and knows of no
orchestrator and no driver.
"""
