"""What one multiprocessor can hold, and how many blocks of a kernel fit on it.

The numbers are those of "Technical Specifications per Compute Capability" in the CUDA C++ Programming Guide.
"""

from dataclasses import dataclass

MAX_THREADS_PER_BLOCK = 1024
MAX_BLOCK = (1024, 1024, 64)
MAX_GRID = (2**31 - 1, 65535, 65535)
MAX_STATIC_SHARED = 48 * 1024  # more needs dynamic shared memory and an opt-in


@dataclass(frozen=True)
class Limits:
    """Per multiprocessor; `reserved` is the shared memory that the system takes for each block."""

    threads: int
    blocks: int
    shared: int
    reserved: int


LIMITS = {
    "sm_75": Limits(threads=1024, blocks=16, shared=64 * 1024, reserved=0),
    "sm_80": Limits(threads=2048, blocks=32, shared=164 * 1024, reserved=1024),
    "sm_90": Limits(threads=2048, blocks=32, shared=228 * 1024, reserved=1024),
}


@dataclass(frozen=True)
class Occupancy:
    """Blocks that fit on one multiprocessor, the share of its threads they fill, and what stops one more."""

    blocks: int
    share: float
    limit: str


def occupancy(threads: int, shared_bytes: int) -> dict[str, Occupancy]:
    """Per architecture. Registers, which only the compiler knows, can lower it further."""
    result = {}
    whole_warps = -(-threads // 32) * 32
    for name, chip in LIMITS.items():
        fits = {
            "threads": chip.threads // max(whole_warps, 1),
            "blocks": chip.blocks,
            "shared memory": chip.shared // max(shared_bytes + chip.reserved, 1),
        }
        limit = min(fits, key=lambda key: fits[key])
        result[name] = Occupancy(fits[limit], fits[limit] * whole_warps / chip.threads, limit)
    return result
