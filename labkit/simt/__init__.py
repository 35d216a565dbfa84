"""A stepper for CUDA kernels: runs them in plain Python, thread by thread, and reports what went wrong.

    report = simt.run(kernel, grid, block, x, out, n)     # one schedule
    report = simt.check(kernel, grid, block, x, out, n)   # eight schedules, results compared
    print(report); report.ok; report.findings; report.counts

No GPU, no Numba. The kernel is the one you would launch: the stepper takes its Python source, gives it a
stand-in for `cuda`, and changes the arrays as the kernel would.

How threads run. A thread is a Python generator: in a copy of the syntax tree `cuda.syncthreads()` becomes a
`yield`, also inside loops and device functions. The other way, one operating-system thread per CUDA thread as
in Numba's simulator, costs a context switch per barrier and leaves the order to the system; generators are
cheap, run in exactly the order that a seed asks for, and can be stopped when a barrier is never reached.

What is counted. Reads and writes from the log of accesses; arithmetic at run time, because every `+` of the
kernel is a call in the copied tree that knows the type of its result; math functions count as one operation.

What is not claimed. Threads run one at a time between barriers, so races are found from the log, not from a
wrong result. Orders made with atomics and fences between blocks (locks, "the last block finishes") are not
understood: waiting loops are stopped, and a read of what another block wrote is called a race. Registers,
caches and time are not modeled.
"""

from labkit.simt.limits import occupancy as occupancy
from labkit.simt.report import Finding as Finding
from labkit.simt.report import Report as Report
from labkit.simt.run import check as check
from labkit.simt.run import run as run
