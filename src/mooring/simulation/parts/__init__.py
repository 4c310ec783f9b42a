"""What stands in for the real world under the production code: network, machines, storage, a cloud, CSI
drivers.

Each part can be told to fail. None knows which cluster it is in, or what is checked.
"""
