"""`ebs.csi.aws.com`: Amazon's Elastic Block Store as a CSI driver (origin: "AWS EBS CSI driver design").

It is stateless: what is, is asked of EC2, and what it did is written into EC2 (tags, client tokens), so that it may die
at any point and go on anywhere. It knows of no orchestrator. `ec2/` is how it talks to EC2: one method, pacing,
batches; `controller` and its neighbours act on volumes through that; `node` acts on the devices of its own machine, and
makes no call to EC2.
"""
