"""What the processor's maths library must be told so that a row's bits are its own.

On Intel processors MKL chooses by the number of rows and threads in how many parts it sums a
product, so padding rows does not suffice there (seen with torch 2.11 on a Xeon with AVX-512: rows
of a [N, 1536] x [1536, 576] product differed between 64 and 2,048 rows). Its strict mode sums in
one order. What it costs was seen once, on a machine that others used: four products of 2,048 rows
took 70 ms without and 71 ms with it on 2 threads, 16 and 21 ms on 16.
"""

import os
import platform
from collections.abc import MutableMapping
from pathlib import Path

VARIABLE = "MKL_CBWR"
MODE = "AUTO,STRICT"

_INTEL = "GenuineIntel"


def steady_products(
    environ: MutableMapping[str, str] = os.environ, vendor: str | None = None
) -> None:
    """Asks for the strict mode on Intel processors; a variable that is set stays.

    The library reads the variable at its first call, so this runs when the engine is imported.
    """
    if (cpu_vendor() if vendor is None else vendor) == _INTEL:
        environ.setdefault(VARIABLE, MODE)


def products_mode() -> str:
    """The mode this process asked for; it can move bits, so it is part of the fingerprint."""
    return os.environ.get(VARIABLE, "default")


def cpu_vendor(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """`GenuineIntel`, `AuthenticAMD` or what else the processor calls its maker; may be empty."""
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "vendor_id":
                return value.strip()
        return ""
    return _INTEL if _INTEL in platform.processor() else ""
