"""The way to a machine's power and cable from outside it: a BMC (IPMI and Redfish), a socket on a switched
power strip, a port on a managed switch (SNMP).

    ipmi_sim, Redfish, SNMP   what clients speak to (`ipmi`, `redfish`, `snmp`), in processes of their own
      door                    what all of them ask: a Unix socket of the `mooring up` that runs
        misbehaving           late, silent, refusing, lying, wrong: the one place where answers go wrong
          power_switch        the truth: power from the live machine, the port from its link

Guarantees: no state of power is kept anywhere; without `mooring up` every device answers with an error.
"""
