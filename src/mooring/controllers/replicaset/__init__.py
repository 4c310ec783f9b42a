"""ReplicaSets, ReplicationControllers and Deployments: a number of interchangeable pods of one template."""
