"""The driver's client of EC2: `api` is the seam, `aws` implements it with botocore, `paced` keeps to EC2's
quotas, `describe` batches questions into calls, `records` reads the answers."""
