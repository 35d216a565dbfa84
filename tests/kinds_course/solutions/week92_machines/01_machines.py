# %% [markdown] id=m-title
# # Week 92: several ranks, and one graph
#
# %% id=m-setup role=setup
import torch

from labkit import check


# %% [markdown] id=m-ring-md
# ## Exercise
#
# Every rank calls the same function with its own `x`, and each returns the average over all ranks. Ranks know
# only their two neighbors: send to the right, receive from the left.
#
# %% id=m-ring role=exercise ex=w92.ring
def ring_average(dist, x):
    ### BEGIN SOLUTION
    n, rank = dist.get_world_size(), dist.get_rank()
    out = x.clone()
    pieces = out.tensor_split(n)
    for step in range(n - 1):
        work = dist.isend(pieces[(rank - step) % n], (rank + 1) % n)
        arrived = torch.empty_like(pieces[(rank - step - 1) % n])
        dist.recv(arrived, (rank - 1) % n)
        work.wait()
        pieces[(rank - step - 1) % n].add_(arrived)
    for step in range(n - 1):
        work = dist.isend(pieces[(rank + 1 - step) % n], (rank + 1) % n)
        dist.recv(pieces[(rank - step) % n], (rank - 1) % n)
        work.wait()
    return out / n
    ### END SOLUTION


# %% id=m-ring-check role=check ex=w92.ring
check("w92.ring", ring_average)


# %% [markdown] id=m-one-graph-md
# ## Exercise
#
# If the largest absolute value of `x` is above 1, divide all of `x` by it; then multiply by `gain`. Write it so that
# `torch.compile` makes one graph of it.
#
# %% id=m-one-graph role=exercise ex=w92.one_graph
def quieter(x, gain):
    ### BEGIN SOLUTION
    peak = x.abs().max()
    return x / peak.clamp(min=1.0) * gain
    ### END SOLUTION


# %% id=m-one-graph-check role=check ex=w92.one_graph
check("w92.one_graph", quieter)
