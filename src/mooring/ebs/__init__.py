"""`ebs.csi.aws.com`: Amazon's Elastic Block Store as a CSI driver (origin: "AWS EBS CSI driver design").

It is stateless: EC2 has the truth, and the driver writes what it did into EC2 (tags, client tokens), so its
process may end at any point and another one go on. It knows of no orchestrator.

    driver               puts it together for one process: controller, node, or both
    controller_service   acts on volumes, attachments and snapshots through `ec2`
    node_service         acts on the devices of its own machine; makes no call to EC2
    options              the flags
    ec2                  calls to EC2: one method, pacing, batches, and when a description can be believed
"""
