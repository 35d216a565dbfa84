"""`dist`, as one rank sees it: the names and arguments of torch.distributed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from labkit.ranks.arrays import content, copied, dtype_of, fill, require_array, shape_of
from labkit.ranks.calls import Call, ReduceOp, calling_place

if TYPE_CHECKING:
    from labkit.ranks.stepper import Run


class Work:
    """A message under way. The tensor belongs to it until `wait()` has come back."""

    def __init__(self, run: Run, call: Call) -> None:
        self._run, self._call = run, call

    def wait(self) -> None:
        """Come back when the message has arrived; what was received is in the tensor from then on."""
        call = self._call
        self._run.wait(call)
        if call.waited:
            return
        call.waited = True
        if not call.sends:
            fill(call.array, call.data)
        elif content(call.array) != content(call.data):
            self._run.report_changed(call)

    def is_completed(self) -> bool:
        return self._call.done


class Dist:
    """What rank r is given as `dist`."""

    ReduceOp = ReduceOp

    def __init__(self, run: Run, rank: int) -> None:
        self._run, self._rank = run, rank

    def get_rank(self) -> int:
        return self._rank

    def get_world_size(self) -> int:
        return self._run.n

    # messages from one rank to another

    def send(self, tensor: Any, dst: int) -> None:
        """Send to rank `dst`; come back when it has been received."""
        self._message("send", tensor, dst).wait()

    def recv(self, tensor: Any, src: int) -> None:
        """Wait for the next message of rank `src` and write it into `tensor`."""
        self._message("recv", tensor, src).wait()

    def isend(self, tensor: Any, dst: int) -> Work:
        """Begin to send and come back at once; `wait()` before the tensor is changed."""
        return self._message("isend", tensor, dst)

    def irecv(self, tensor: Any, src: int) -> Work:
        """Ask for the next message of rank `src` and come back at once; after `wait()` it is in `tensor`."""
        return self._message("irecv", tensor, src)

    def _message(self, name: str, tensor: Any, peer: int) -> Work:
        require_array(tensor, name)
        self._require_rank(peer, name)
        if peer == self._rank:
            raise ValueError(
                f"rank {peer} cannot {name.lstrip('i')} to itself or from itself; copy the tensor."
            )
        call = Call(self._rank, name, calling_place(), tensor, int(peer))
        call.data = copied(tensor) if call.sends else None
        self._run.post(call)
        return Work(self._run, call)

    # collectives: every rank calls them, in the same order

    def all_reduce(self, tensor: Any, op: Any = ReduceOp.SUM) -> None:
        """Combine the tensors of all ranks; every rank has the result in `tensor`."""
        self._collective("all_reduce", tensor, op=_name(op, tensor))

    def broadcast(self, tensor: Any, src: int) -> None:
        """Copy the tensor of rank `src` into every rank's."""
        self._require_rank(src, "broadcast")
        self._collective("broadcast", tensor, peer=int(src))

    def all_gather(self, tensor_list: Sequence[Any], tensor: Any) -> None:
        """Fill `tensor_list` with the tensors of all ranks, rank 0 first."""
        self._require_list(tensor_list, tensor, "all_gather")
        self._collective("all_gather", tensor, lists=tensor_list)

    def reduce_scatter(self, output: Any, input_list: Sequence[Any], op: Any = ReduceOp.SUM) -> None:
        """Combine the r-th tensors of all ranks' lists; rank r has the result in `output`."""
        self._require_list(input_list, output, "reduce_scatter")
        self._collective("reduce_scatter", output, op=_name(op, output), lists=input_list)

    def barrier(self) -> None:
        """Come back when every rank has come here."""
        self._collective("barrier")

    def _collective(self, name: str, tensor: Any = None, **more: Any) -> None:
        if name != "barrier":
            require_array(tensor, name)
        call = Call(self._rank, name, calling_place(), tensor, **more)
        self._run.join(call)
        self._run.wait(call)

    # what a call must be given

    def _require_rank(self, rank: Any, name: str) -> None:
        n = self._run.n
        if isinstance(rank, bool) or not hasattr(rank, "__index__"):
            raise TypeError(f"`{name}` takes the number of a rank; this is {type(rank).__name__}.")
        if not 0 <= rank < n:
            raise ValueError(f"`{name}`: there is no rank {rank}; ranks are 0 to {n - 1}. Take it `% {n}`?")

    def _require_list(self, tensors: Any, like: Any, name: str) -> None:
        require_array(like, name)
        if not isinstance(tensors, list | tuple) or len(tensors) != self._run.n:
            given = f"{len(tensors)}" if hasattr(tensors, "__len__") else type(tensors).__name__
            raise ValueError(
                f"`{name}` takes a list of {self._run.n} tensors, one per rank; this is {given}."
            )
        for number, tensor in enumerate(tensors):
            require_array(tensor, name)
            if (shape_of(tensor), dtype_of(tensor)) != (shape_of(like), dtype_of(like)):
                words = f"{shape_of(tensor)} {dtype_of(tensor)}, not {shape_of(like)} {dtype_of(like)}"
                raise ValueError(f"`{name}`: tensor {number} of the list is {words}.")


def _name(op: Any, tensor: Any) -> str:
    """The name of a reduction; torch's own ReduceOp is understood too."""
    name = getattr(op, "name", None) or str(op).split(".")[-1]
    if name not in ReduceOp.__members__:
        raise ValueError(f"{op!r} is none of ReduceOp.{', ReduceOp.'.join(ReduceOp.__members__)}.")
    if name == "AVG" and "float" not in dtype_of(tensor):
        raise ValueError(f"ReduceOp.AVG needs a floating dtype; this is {dtype_of(tensor)}.")
    return name
