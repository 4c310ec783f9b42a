"""Reading requests: parameters, filters and pages; and EC2's request quotas. Pure."""
