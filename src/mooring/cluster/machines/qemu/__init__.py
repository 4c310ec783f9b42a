"""A machine that is a QEMU virtual machine, with a stock kernel of Debian's.

`machine` is the machine; `host` says what is missing here, and whether KVM boots (`trial`); `guest_kernel`
finds a kernel and the modules that it needs, `initramfs` packs them; `command_line` is what QEMU is started
with, by `launcher`; `qmp` speaks to it.
"""
