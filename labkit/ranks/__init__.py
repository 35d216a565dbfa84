"""Several ranks in one process: write what every rank does, run it, see who sent what and who waits for whom.

    def average(dist, x):                       # `dist` has the names of torch.distributed
        dist.all_reduce(x)
        return x / dist.get_world_size()

    result = World(4).run(average, inputs)      # inputs[r] goes to rank r
    print(result.table()); result.values; result.hazard

How ranks run. A rank is a thread, but only one of them runs at a time: it goes on until it has to wait for
another, then the next one that can go on has its turn. The order is fixed, so every run is the same run; if
nobody can go on, that is a deadlock, told at once and not after a time-out.

What is strict. `send` comes back only when it has been received, as torch does not promise otherwise: code
that needs a buffer deadlocks here every time, and on a cluster when the tensor is large. `isend` must not see
its tensor changed before `wait()`. Collectives are compared call by call: name, operation, shape and dtype.

What is counted. Messages and bytes that each rank sends and receives, exact and the same on every machine.
A collective counts as its usual algorithm does: all_reduce, reduce_scatter and all_gather as a ring,
broadcast as a tree. Time is modeled: alpha seconds for a message and beta for a byte, one message at a time
through each rank's way out and way in. Nothing is measured.
"""

from labkit.ranks.calls import ReduceOp as ReduceOp
from labkit.ranks.report import Hazard as Hazard
from labkit.ranks.report import Result as Result
from labkit.ranks.stepper import World as World
from labkit.ranks.threaded import run as run
