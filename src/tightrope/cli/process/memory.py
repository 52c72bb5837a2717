"""How much memory is free."""

import math
import os


def free_memory() -> float:
    """Bytes that programs can still have, infinity where the system does not tell."""
    try:
        with open("/proc/meminfo") as lines:
            found = next((line for line in lines if line.startswith("MemAvailable:")), "")
        return float(found.split()[1]) * 1024
    except (OSError, IndexError, ValueError):
        pass
    try:
        return float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):
        return math.inf
