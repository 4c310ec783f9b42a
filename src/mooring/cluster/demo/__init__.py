"""`mooring demo`: stories on real block devices and machines, with every claim checked.

`scene` is what all of them share, `volume` one volume's life, `fence` nodes that are lost and fenced, `play`
the frame. Each check is made on what is true (the storage, the kernel, the bytes on the disk), not on what
the API says. The exit status is 0 only if every check held.
"""
