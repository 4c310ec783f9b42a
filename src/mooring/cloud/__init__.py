"""An EC2-compatible endpoint on this machine: volumes, attachments, snapshots, instances, with EC2's quotas
and delays.

    process      one cloud on this machine: data directory, records, devices and endpoint, put together
    endpoint     EC2's query protocol over HTTP, the instances' metadata services, the control API
    cloud        what EC2 does, without a wire: `Cloud.call` takes and gives what boto3 takes and gives
    actions      EC2's actions, one module for each subject, and what happens later because of them
    region       what all actions share: the records, the clock, randomness, the present settings
    requests     parameters, filters, pages, and EC2's request quotas
    records      the cloud's records, their tables, their journal, and the times at which they are due
    devices      makes an attached volume a block device of its instance

Each imports only those below it. The cloud serves any client; it must know of no orchestrator or driver.
"""
