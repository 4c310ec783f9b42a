"""The cloud on sockets: EC2's query protocol, the instances' metadata services, the control API."""
