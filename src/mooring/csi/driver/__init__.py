"""A base for CSI drivers.

    driver = Driver(name="disk.example.com", version="1.0", controller=MyController(), node=MyNode(), ...)
    dispatcher = Dispatcher(driver, allowed=[Path("/var/lib/kubelet")], observers=[log_call])
    async with serving(dispatcher, ["unix:///csi/csi.sock"]):
        ...

`services`: `Driver`, `ControllerService`, `NodeService`, which an author extends. `dispatch`: `Dispatcher`
(validation, operations in flight, deadlines, errors) and `LocalChannel`, with which a `Client` calls a driver
in the same process. `server`: gRPC. `docs/csi-driver-tutorial.md` writes a driver with it.
"""
