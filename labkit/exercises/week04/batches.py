"""The shuffled batches of an epoch, the same for the same seed."""

from labkit.exercises.declare import Case, Implement, Mistake, Rules
from labkit.exercises.week04.shared import chunks, epoch_order, seeded, torch_batches
from labkit.lazy import torch


def _batches_by_split(n, batch_size, seed, epoch, drop_last):
    found = [rows.tolist() for rows in torch.tensor(epoch_order(n, seed, epoch)).long().split(batch_size)]
    return [rows for rows in found if len(rows) == batch_size] if drop_last else found


def _batches_reseeded(n, batch_size, seed, epoch, drop_last):
    torch.manual_seed(seed + epoch)
    return chunks(torch.randperm(n).tolist(), batch_size, drop_last)


def _batches_in_blocks(n, batch_size, seed, epoch, drop_last):
    blocks = chunks(list(range(n)), batch_size, drop_last)
    return [blocks[i] for i in epoch_order(len(blocks), seed, epoch)]


def _batches_beside_chance(batches, n, batch_size, seed, epoch, drop_last):
    """The batches, and whether torch's own chance goes on as if nothing had been drawn."""
    before = torch.get_rng_state()
    found = batches(n, batch_size, seed, epoch, drop_last)
    return {"batches": found, "torch's own chance untouched": torch.equal(before, torch.get_rng_state())}


def _batches_minus_one(n, batch_size, seed, epoch, drop_last):
    found = chunks(epoch_order(n, seed, epoch), batch_size)
    return found[:-1] if drop_last else found


def _batch_case(n, batch_size, seed, epoch, drop_last):
    return lambda draw: {
        "n": n,
        "batch_size": batch_size,
        "seed": seed,
        "epoch": epoch,
        "drop_last": drop_last,
    }


exercise = Implement(
    title="Shuffle and cut",
    minutes=8,
    needs=("w04.dataset",),
    engine="python",
    cases=[
        Case("ten in fours", _batch_case(10, 4, 0, 0, False)),
        Case("the next epoch", _batch_case(10, 4, 0, 1, False)),
        Case("another seed", _batch_case(10, 4, 5, 1, False)),
        Case("last one dropped", _batch_case(11, 3, 2, 4, True)),
        Case("nothing left over, drop_last", _batch_case(12, 4, 1, 2, True)),
        Case("batches of one", _batch_case(3, 1, 3, 0, False)),
        Case("fewer than one batch", _batch_case(5, 8, 3, 2, True), extreme=True),
        Case("no samples", _batch_case(0, 4, 3, 2, False), extreme=True),
    ],
    use=_batches_beside_chance,
    oracle=lambda *case: _batches_beside_chance(torch_batches, *case),
    rules=Rules(forbids=("BatchSampler", "RandomSampler", "DataLoader", "SubsetRandomSampler")),
    delegate=lambda n, batch_size, seed, epoch, drop_last: list(
        torch.utils.data.BatchSampler(epoch_order(n, seed, epoch), batch_size, drop_last)
    ),
    mistakes=[
        Mistake(
            "the same every epoch",
            "Every epoch has the same order: the epoch must go into the seed of the generator.",
            lambda n, batch_size, seed, epoch, drop_last: chunks(
                epoch_order(n, seed, 0), batch_size, drop_last
            ),
        ),
        Mistake(
            "seed ignored",
            "The order does not depend on the seed: two runs with different seeds would see the same batches.",
            lambda n, batch_size, seed, epoch, drop_last: chunks(
                epoch_order(n, 0, epoch), batch_size, drop_last
            ),
        ),
        Mistake(
            "global chance",
            "The order comes from torch's global generator, which anybody may have moved on. Make one of your own.",
            lambda n, batch_size, seed, epoch, drop_last: chunks(
                torch.randperm(n).tolist(), batch_size, drop_last
            ),
        ),
        Mistake(
            "global chance set back",
            "`torch.manual_seed` sets everybody's chance back: dropout would draw the same in every epoch. Make a generator.",
            _batches_reseeded,
        ),
        Mistake(
            "whole blocks",
            "Neighbors stay together: whole batches change places. Shuffle the samples, then cut.",
            _batches_in_blocks,
        ),
        Mistake(
            "seed times epoch",
            "Seed and epoch are multiplied: in epoch 0 all seeds are alike. Add them.",
            lambda n, batch_size, seed, epoch, drop_last: chunks(
                epoch_order(n, seed * epoch, 0), batch_size, drop_last
            ),
        ),
        Mistake(
            "an empty batch",
            "With no samples at all there is one empty batch: `split` gives that. No samples, no batches.",
            _batches_by_split,
        ),
        Mistake(
            "not shuffled",
            "The batches are in the order of the data: shuffle first, then cut.",
            lambda n, batch_size, seed, epoch, drop_last: chunks(list(range(n)), batch_size, drop_last),
        ),
        Mistake(
            "last batch lost",
            "The last, smaller batch is lost although drop_last is False: those samples would be skipped.",
            lambda n, batch_size, seed, epoch, drop_last: chunks(
                epoch_order(n, seed, epoch), batch_size, True
            ),
        ),
        Mistake(
            "drop_last ignored",
            "drop_last is True, and the smaller batch is still there.",
            lambda n, batch_size, seed, epoch, drop_last: chunks(epoch_order(n, seed, epoch), batch_size),
        ),
        Mistake(
            "full batch dropped",
            "drop_last drops the last batch even if it is full: only a batch that is too small is to go.",
            _batches_minus_one,
        ),
        Mistake(
            "with replacement",
            "These are independent draws: some samples come twice and others never. `randperm` visits each once.",
            lambda n, batch_size, seed, epoch, drop_last: chunks(
                torch.randint(max(n, 1), (n,), generator=seeded(seed + epoch)).tolist(),
                batch_size,
                drop_last,
            ),
        ),
    ],
    hints=(
        "Two steps: an order of 0 … n - 1, then slices of it.",
        "`torch.randperm(n, generator=torch.Generator().manual_seed(seed + epoch)).tolist()`, then order[i : i + batch_size].",
        "[order[i : i + batch_size] for i in range(0, n, batch_size)]; with drop_last keep those of full length.",
    ),
    passed="Seed + epoch is what torch's DistributedSampler does: after a crash in epoch 7 you can make epoch 7 again.",
)
