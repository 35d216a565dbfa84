"""What several exercises of week 4 need: seeded orders, small networks, a loop with a switch per fault."""

from labkit.exercises.declare import Case
from labkit.lazy import F, torch

NO_TRAINER = "torch has no function for it: the loop is written by hand in every program"
STEPS = 10_000  # additions behind one weight after some steps of training: rounding grows with them


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def epoch_order(n, seed, epoch):
    return torch.randperm(n, generator=seeded(seed + epoch)).tolist()


def chunks(order, batch_size, drop_last=False):
    found = [order[i : i + batch_size] for i in range(0, len(order), batch_size)]
    return [batch for batch in found if len(batch) == batch_size] if drop_last else found


def torch_batches(n, batch_size, seed, epoch, drop_last=False):
    order = epoch_order(n, seed, epoch)
    return list(torch.utils.data.BatchSampler(order, batch_size, drop_last))


def reproducible(build):
    """A model whose first weights follow from nothing but `build`; the global generator starts at 0 afterward."""
    torch.manual_seed(1)
    model = build().double()
    torch.manual_seed(0)
    return model


def plain_loader(batch_size, *tensors):
    """Batches in the order of the data, the last one smaller: a list, so that it can be read again and again."""
    return list(zip(*(tensor.split(batch_size) for tensor in tensors), strict=True))


def parameters(model):
    return {name: value.detach().clone() for name, value in model.named_parameters()}


def regression_net():
    return torch.nn.Sequential(
        torch.nn.Linear(3, 4), torch.nn.Dropout(0.25), torch.nn.Tanh(), torch.nn.Linear(4, 1)
    )


def clinic_net():
    return torch.nn.Sequential(
        torch.nn.Linear(3, 6), torch.nn.ReLU(), torch.nn.Dropout(0.4), torch.nn.Linear(6, 4)
    )


def class_case(n, batch_size):
    return lambda draw: {"x": draw.normal(n, 3), "y": draw.integers(0, 4, n), "batch_size": batch_size}


def class_strided(draw):
    return {"x": draw.transposed(7, 3), "y": draw.integers(0, 4, 14)[::2], "batch_size": 4}


CLASS_CASES = [
    Case("eight rows in threes", class_case(8, 3)),
    Case("two even batches", class_case(10, 5)),
    Case("not contiguous", class_strided),
    Case("one row", class_case(1, 1)),
]


def train_with(zero="batch", scale=None, rate=1.0, reduction="mean", reported=None):
    """Gradient descent on cross-entropy with one thing about it changed."""

    def train(model, loader, epochs, lr):
        optimizer = torch.optim.SGD(
            model.parameters(), lr=lr * (rate if isinstance(rate, float) else rate(loader))
        )
        model.train()
        losses = []
        for _ in range(epochs):
            if zero == "epoch":
                optimizer.zero_grad()
            for x, y in loader:
                if zero == "batch":
                    optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y, reduction=reduction)
                loss = loss if scale is None else loss * scale(x, loader)
                loss.backward()
                if zero == "late":
                    optimizer.zero_grad()
                optimizer.step()
                losses.append(loss.item() * (1 if reported is None else reported(x)))
        return losses

    return train


def trained(train, x, y, batch_size):
    model = reproducible(clinic_net)
    model.eval()
    losses = train(model, plain_loader(batch_size, x, y), 3, 0.3)
    return {"losses": losses, "weights": parameters(model)}
