"""How the driver talks to EC2: `api` is the seam, `aws` the real thing behind it, `paced` keeps to EC2's
quotas, `describe` asks many questions in one call, `records` reads the answers."""
