"""ReplicaSets, ReplicationControllers and Deployments: so many pods of one template, whoever they are."""
