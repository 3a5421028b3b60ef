"""Which processor this is: its design tells more of its speed than the name that a virtual machine
shows.
"""

from __future__ import annotations

import platform
from pathlib import Path

# By vendor and family: the first and last model of a design. As in arch/x86/kernel/cpu/amd.c and
# arch/x86/include/asm/intel-family.h of Linux.
DESIGNS = {
    ("AuthenticAMD", 23): ((0x00, 0x2F, "Zen"), (0x30, 0xFF, "Zen 2")),
    ("AuthenticAMD", 25): (
        (0x00, 0x0F, "Zen 3"),
        (0x10, 0x1F, "Zen 4"),
        (0x20, 0x5F, "Zen 3"),
        (0x60, 0xAF, "Zen 4"),
    ),
    ("AuthenticAMD", 26): (
        (0x00, 0x2F, "Zen 5"),
        (0x40, 0x4F, "Zen 5"),
        (0x60, 0x7F, "Zen 5"),
    ),
    ("GenuineIntel", 6): (
        (0x3F, 0x3F, "Haswell"),
        (0x4F, 0x4F, "Broadwell"),
        (0x55, 0x55, "Skylake"),
        (0x6A, 0x6A, "Ice Lake"),
        (0x6C, 0x6C, "Ice Lake"),
        (0x8F, 0x8F, "Sapphire Rapids"),
        (0xAD, 0xAE, "Granite Rapids"),
        (0xCF, 0xCF, "Emerald Rapids"),
    ),
}


# Virtual machines may tell the number of another design. Of those of Intel with matrix tiles
# (AMX), the ones since Granite Rapids have a first-level cache of instructions of 64 KiB.
INSTRUCTIONS = Path("/sys/devices/system/cpu/cpu0/cache/index1/size")


def facts() -> dict[str, str]:
    """What the system says of the first processor, by the system's words."""
    found: dict[str, str] = {}
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        found.setdefault(name.strip(), value.strip())
    if INSTRUCTIONS.exists():
        found["instruction cache"] = INSTRUCTIONS.read_text().strip()
    return found


def name(known: dict[str, str]) -> str:
    """The name the processor gives itself."""
    return known.get("model name", platform.machine())


def design(known: dict[str, str]) -> str:
    """The name of its design; empty if the table above has not got it."""
    numbers = known.get("cpu family", ""), known.get("model", "")
    if not all(number.isdigit() for number in numbers):
        return ""
    family, model = map(int, numbers)
    vendor = known.get("vendor_id", "")
    ranges = DESIGNS.get((vendor, family), ())
    title = next((title for first, last, title in ranges if first <= model <= last), "")
    has_tiles = vendor == "GenuineIntel" and "amx_tile" in known.get("flags", "").split()
    if not title and has_tiles and known.get("instruction cache") == "64K":
        return "Granite Rapids"
    return title
