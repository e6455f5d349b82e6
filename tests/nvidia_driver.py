"""Whether NVIDIA's driver is loaded on this machine.

The kernel module makes this file. /dev/nvidiactl proves nothing: NVIDIA's library makes it itself
where root loads the library without the module.
"""

import os

HAS_DRIVER = os.path.exists("/proc/driver/nvidia/version")
