"""CSI: messages, a client, a base for drivers. It knows nothing of Kubernetes and imports nothing else of
ours.

Messages: `from mooring.csi.proto import csi_pb2 as csi` (and `registration_pb2`), generated from the `.proto`
files.

Client (`mooring.csi.client`):

    Client(driver: str | Channel, observers: Sequence[Observer] = ())       "unix:///path", "/path", "tcp://host:port"
    await client.controller.create_volume(csi.CreateVolumeRequest(...), timeout_s=10)
        -> csi.CreateVolumeResponse
        .identity .controller .group_controller .node .registration: methods as in `mooring.csi.rpc`
    await client.call(Controller.create_volume, request, timeout_s) -> the same for a method that is a value
    await client.close()

A failed call raises `mooring.csi.errors.CsiError`: `.code` (`Code`), `.message`, `.method`, and `.outcome`
(`Outcome.FINAL`: certainly nothing happened; `Outcome.UNKNOWN`: it may have). `NotConnected` means that the
call was never sent.

Seam: `Channel` is a Protocol of `call(rpc, request, timeout_s)` and `close()`. `GrpcChannel` goes over a
socket; `mooring.csi.driver` has a channel that calls a driver in this process; faults and recorders wrap
another channel.

Observers get an `Exchange` for each call: method, path, started, duration_s, code, message, request(),
reply(); request() and reply() have no secrets. `mooring.csi.metrics`:
`sidecar_metrics(registry).observer(driver_name)`, `node_metrics(...)`.

Driver base (`mooring.csi.driver`): `Driver(name, version, controller=, node=, plugin_services=, expansion=,
access_modes=, codes=)`, `Dispatcher(driver, allowed_paths, observers)`, `LocalChannel(dispatcher)`,
`serving(dispatcher, endpoints)`.
"""
