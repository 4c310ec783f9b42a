"""FlexVolume: volumes of drivers that are executables in a directory of the machine."""
