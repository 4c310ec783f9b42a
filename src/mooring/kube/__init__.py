"""The Kubernetes side: typed objects, a client, informers, a work queue, events.

Knows nothing of the rest of Mooring and nothing of storage. Everything reaches the API server through one
seam, `transport.Transport.send`; all time is the event loop's, all randomness is injected.
"""
