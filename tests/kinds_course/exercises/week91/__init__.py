"""One exercise of each of the new kinds, small but real."""

from labkit.exercises.week91.block_sum import exercise as block_sum  # noqa: F401
from labkit.exercises.week91.digits import exercise as digits  # noqa: F401
