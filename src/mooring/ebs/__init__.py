"""`ebs.csi.aws.com`: Amazon's Elastic Block Store as a CSI driver (origin: "AWS EBS CSI driver design").

It is stateless: what is true is asked of EC2, and what the driver did is written into EC2 (tags, client
tokens), so that it may die at any point and go on anywhere. It knows of no orchestrator.

    driver               puts it together for one process: controller, node, or both
    controller_service   acts on volumes, attachments and snapshots through `ec2`
    node_service         acts on the devices of its own machine, and makes no call to EC2
    options              the flags
    ec2                  calls to EC2: one method, pacing, batches, and when a description can be believed
"""
