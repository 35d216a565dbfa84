# %% [markdown] id=w05b-title
# # Week 5 · 02 A network that trains
#
# In about 75 minutes you will write the two inventions that made deep networks trainable, batch normalization and the
# residual block, and build a small ResNet out of them. You load torch's weights into it and compare layer by layer. At
# the end it reads clothes better than an MLP with more parameters, five times over.
# %% id=w05b-setup role=setup
import itertools

import torch
import torch.nn.functional as F
from torch import nn
from tqdm import tqdm

import labkit
from labkit import check, compat, datasets, viz

# One thread: for models this small more of them cost more than they bring, and with one the sums come out
# the same however many cores a machine has.
torch.set_num_threads(1)

# %% [markdown] id=w05b-surprise
# ## A surprise first
#
# Twenty convolutions in a row, each followed by a ReLU, weights as torch draws them, on the same 16 pictures. How large
# are the numbers that come out at the end, compared with those that go in? The second curve adds one thing after every
# convolution: subtract the mean of each channel, divide by its standard deviation. Decide, then run it.
# %% id=w05b-surprise-code
torch.manual_seed(0)
pictures = torch.randn(16, 8, 12, 12, dtype=torch.float64)
signals, sizes = {"plain": pictures, "normalized": pictures}, {"plain": [1.0], "normalized": [1.0]}
for _ in range(20):
    conv = nn.Conv2d(8, 8, 3, padding=1, bias=False, dtype=torch.float64)
    signals = {name: conv(x).detach() for name, x in signals.items()}
    z = signals["normalized"]
    signals["normalized"] = (z - z.mean((0, 2, 3), keepdim=True)) / z.std((0, 2, 3), keepdim=True)
    for name in signals:
        signals[name] = signals[name].relu()
        sizes[name].append(signals[name].std().item())
viz.curves(
    sizes, log="y", xlabel="layer", ylabel="standard deviation", title="a signal on its way through 20 layers"
)


# %% [markdown] id=w05b-bn-md
# After 20 layers the plain signal is gone, and so would be its gradient. Normalized, it stays about as large as it was,
# whatever the weights are. This is *batch normalization*: measure on the batch at hand, and correct.
#
# ## Exercise
#
# Each channel has its own mean and variance, over all images *and* all places: axes (0, 2, 3). Then a learned scale and
# shift, one of each per channel:
#
# $$y = \gamma\, \frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}} + \beta$$
#
# - **Training**: μ and σ² come from the batch. σ² divides by n, all the numbers of the channel: `x.var(dims,
#   correction=0)`, the *biased* variance.
# - **Evaluation**: there may be one picture, or a strange batch, and its answer must not depend on its neighbors. So
#   training keeps *running* averages, and evaluation uses those: `running = (1 - momentum) * running + momentum * new`.
#   In torch, `momentum` is the weight of the *new* value, 0.1. (Elsewhere it is the weight of the old one, 0.9.)
# - The running variance takes the *unbiased* variance, which divides by n − 1. One line of torch, and the most asked
#   question about this layer.
# - Running averages are a record, not a part of the computation: update them in place under `torch.no_grad()`.
#
# One channel, values 1 and 3, momentum 0.1, from running mean 0 and variance 1: μ = 2, σ² = 1, output −1 and 1; then
# running mean 0.2, running variance 0.9 · 1 + 0.1 · 2 = 1.1.
# %% id=w05b-bn role=exercise ex=w05.batch_norm
class BatchNorm2d(nn.Module):
    """Normalize each channel of (N, C, H, W): by the batch in training, by running averages in evaluation."""

    def __init__(self, channels: int, eps: float = 1e-5, momentum: float = 0.1) -> None:
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))  # buffers: saved, moved, not trained
        self.register_buffer("running_var", torch.ones(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        ### BEGIN SOLUTION
        mean, var = self.running_mean, self.running_var
        if self.training:
            dims = (0, 2, 3)
            mean, var = x.mean(dims), x.var(dims, correction=0)
            with torch.no_grad():
                self.running_mean.lerp_(mean, self.momentum)  # running + momentum * (new - running)
                self.running_var.lerp_(x.var(dims), self.momentum)
        scale = self.weight / (var + self.eps).sqrt()
        return (x - mean[:, None, None]) * scale[:, None, None] + self.bias[:, None, None]
        ### END SOLUTION


# %% id=w05b-bn-check role=check ex=w05.batch_norm
check("w05.batch_norm", BatchNorm2d)


# %% [markdown] id=w05b-block-md
# ## Exercise
#
# Normalization keeps the numbers alive. Very deep networks still trained *worse* than shallow ones, on their own
# training data. The cure: let a block of layers compute not the result, but what to *add* to its input. If there is
# nothing to add, zeros will do, and the gradient always has a way around.
#
# ```
#   x ──── conv1 ─ bn1 ─ relu ─ conv2 ─ bn2 ──── + ── relu ──>
#   └───────────────── downsample ───────────────┘
# ```
#
# Both convolutions are 3×3 with padding 1 and no bias (the batch norm has one). `conv1` takes the block from
# `channels_in` to `channels`, and has the stride. If the stride is not 1 or the channels change, `x` no longer fits:
# then `downsample` is an `nn.Sequential` of a 1×1 convolution with the same stride, without bias, and a batch norm.
# Otherwise `downsample` is `None` and `x` itself is added.
#
# Use `nn.Conv2d(channels_in, channels, size, stride, padding, bias=False)` and your own `BatchNorm2d`. The names of the
# parts matter: weights are loaded by name, and these are torchvision's.
# %% id=w05b-block role=exercise ex=w05.block
class BasicBlock(nn.Module):
    """relu(bn2(conv2(relu(bn1(conv1(x))))) + shortcut): (N, channels_in, H, W) -> (N, channels, H/stride, W/stride)"""

    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        super().__init__()
        ### BEGIN SOLUTION
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride, 1, bias=False)
        self.bn1 = BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.bn2 = BatchNorm2d(channels)
        self.downsample = None
        if stride != 1 or channels_in != channels:
            shortcut = nn.Conv2d(channels_in, channels, 1, stride, bias=False)
            self.downsample = nn.Sequential(shortcut, BatchNorm2d(channels))
        ### END SOLUTION

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        ### BEGIN SOLUTION
        y = self.bn1(self.conv1(x)).relu()
        y = self.bn2(self.conv2(y))
        return (y + (x if self.downsample is None else self.downsample(x))).relu()
        ### END SOLUTION


# %% id=w05b-block-check role=check ex=w05.block
check("w05.block", BasicBlock)


# %% [markdown] id=w05b-resnet-md
# ## Exercise
#
# The whole network, first to last:
#
# | part | what it is | shape for one picture of 28×28, widths (8, 12), grid 3 |
# |---|---|---|
# | `conv1` | 3×3, stride 2, padding 1, no bias, to `widths[0]` channels | 8×14×14 |
# | `bn1` | batch norm, then ReLU | 8×14×14 |
# | `blocks` | `nn.Sequential` of one `BasicBlock` with stride 2 from each width to the next | 12×7×7 |
# | | average pooling to a grid of `grid` × `grid`, then flatten | 108 |
# | `fc` | linear, to the classes | 10 |
#
# With `grid=1` this is *global average pooling*: one number per channel, wherever something was, and any size of
# picture fits. [`F.adaptive_avg_pool2d(x,
# grid)`](https://docs.pytorch.org/docs/2.13/generated/torch.nn.functional.adaptive_avg_pool2d.html) does it,
# `x.flatten(1)` keeps the batch. `itertools.pairwise((8, 12, 16))` gives (8, 12), (12, 16).
#
# The check loads weights by name and compares *every part in turn*, so that it can name the first one that differs.
# %% id=w05b-resnet role=exercise ex=w05.resnet
class SmallResNet(nn.Module):
    """(N, channels_in, H, W) -> logits (N, classes)"""

    def __init__(self, channels_in: int, widths: tuple[int, ...], grid: int, classes: int) -> None:
        super().__init__()
        self.grid = grid
        ### BEGIN SOLUTION
        self.conv1 = nn.Conv2d(channels_in, widths[0], 3, 2, 1, bias=False)
        self.bn1 = BatchNorm2d(widths[0])
        self.blocks = nn.Sequential(*[BasicBlock(a, b, 2) for a, b in itertools.pairwise(widths)])
        self.fc = nn.Linear(widths[-1] * grid * grid, classes)
        ### END SOLUTION

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        ### BEGIN SOLUTION
        x = self.blocks(self.bn1(self.conv1(x)).relu())
        return self.fc(F.adaptive_avg_pool2d(x, self.grid).flatten(1))
        ### END SOLUTION


# %% id=w05b-resnet-check role=check ex=w05.resnet
check("w05.resnet", SmallResNet)


# %% [markdown] id=w05b-layers-md
# ## The first layer that differs
#
# The same network of torch's own parts: `nn.BatchNorm2d` and torchvision's `BasicBlock`. Its weights go into yours by
# name. When two networks ought to agree and do not, do not stare at the logits: hook every part of both, and look for
# the *first* that differs. All later ones differ because of it. (The hook keeps a `clone`: torchvision's ReLU works in
# place, and would overwrite what the hook has seen.)
# %% id=w05b-layers
class TorchResNet(nn.Module):
    """The network above, of torch's and torchvision's own parts."""

    def __init__(self, channels_in: int, widths: tuple[int, ...], grid: int, classes: int) -> None:
        super().__init__()
        block = compat.torchvision().models.resnet.BasicBlock
        self.conv1 = nn.Conv2d(channels_in, widths[0], 3, stride=2, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(widths[0])
        self.blocks = nn.Sequential()
        for a, b in itertools.pairwise(widths):
            shortcut = nn.Sequential(nn.Conv2d(a, b, 1, stride=2, bias=False), nn.BatchNorm2d(b))
            self.blocks.append(block(a, b, stride=2, downsample=shortcut))
        self.pool = nn.AdaptiveAvgPool2d(grid)
        self.fc = nn.Linear(widths[-1] * grid * grid, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.blocks(self.bn1(self.conv1(x)).relu())
        return self.fc(self.pool(x).flatten(1))


def outputs(model: nn.Module, x: torch.Tensor) -> dict[str, torch.Tensor]:
    """What each part of the network returns, in the order in which the parts are done."""
    found: dict[str, torch.Tensor] = {}
    hooks = [
        part.register_forward_hook(lambda _, inputs, output, name=name: found.update({name: output.clone()}))
        for name, part in model.named_modules()
        if name
    ]
    with torch.no_grad():
        model(x)
    for hook in hooks:
        hook.remove()
    return found


def first_difference(mine: nn.Module, theirs: nn.Module, x: torch.Tensor) -> str:
    """The first part of theirs with another output than its namesake in mine, or the word "none"."""
    ours, torchs = outputs(mine, x), outputs(theirs, x)
    parts = [name for name in torchs if name in ours]
    return next((name for name in parts if not torch.allclose(ours[name], torchs[name])), "none")


# %% id=w05b-layers-run
torch.manual_seed(0)
theirs = TorchResNet(3, (4, 6, 10), 1, 7).double()
theirs(torch.randn(32, 3, 20, 20, dtype=torch.float64))  # one batch in training mode: running averages move
mine = SmallResNet(3, (4, 6, 10), 1, 7).double()
missing, unexpected = mine.load_state_dict(theirs.state_dict(), strict=False)
print("missing:", missing, "| only torch counts its batches:", {name.split(".")[-1] for name in unexpected})
theirs.eval()
mine.eval()
pictures = torch.randn(5, 3, 20, 24, dtype=torch.float64)
print("first difference:", first_difference(mine, theirs, pictures))
mine.blocks[1].bn1.eps = 1e-3  # a fault, planted
print("first difference:", first_difference(mine, theirs, pictures))
mine.blocks[1].bn1.eps = 1e-5
# %% [markdown] id=w05b-own-md
# One more: the convolutions of notebook 01 are yours as well. `labkit.mine.of("convolution")` brings your answers here
# (or the reference where one is still open). Put your `conv2d` into every layer: then each convolution, each batch norm
# and each block of this network is your code.
# %% id=w05b-own
convolution = labkit.mine.of("convolution")
for layer in mine.modules():
    if isinstance(layer, nn.Conv2d):
        layer.forward = lambda x, layer=layer: convolution.conv2d(
            x, layer.weight, layer.bias, layer.stride[0], layer.padding[0]
        )
print("first difference with your conv2d:", first_difference(mine, theirs, pictures))


# %% [markdown] id=w05b-milestone-md
# ## Milestone: fewer parameters, more right
#
# Fashion-MNIST: clothes of ten kinds. Two networks under a cap of 4,000 parameters. The MLP sees 784 unrelated numbers
# and spends nearly all its parameters on five hidden units. Your ResNet, with fewer parameters, knows one thing about
# pictures: what is worth finding in one place is worth finding in another. Same 6,000 pictures, same two epochs, same
# optimizer and learning rate; tested on 2,000 pictures that neither has seen. Five seeds, so that it is not luck. It
# takes about half a minute.
# %% id=w05b-milestone-nets
def resnet() -> nn.Module:
    return SmallResNet(1, (8, 12), 3, 10)


def mlp() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 5), nn.ReLU(), nn.Linear(5, 10))


for make in (resnet, mlp):
    print(f"{make.__name__:7} {sum(p.numel() for p in make().parameters()):5,} parameters")

clothes, unseen = datasets.fashion_mnist("train"), datasets.fashion_mnist("test")
images, labels = torch.from_numpy(clothes.images[:6000])[:, None], torch.from_numpy(clothes.labels[:6000])
test_images, test_labels = torch.from_numpy(unseen.images)[:, None], torch.from_numpy(unseen.labels)
mean, std = images.mean(), images.std()  # from the training pictures only
images, test_images = (images - mean) / std, (test_images - mean) / std


def train(model: nn.Module, lr: float, epochs: int = 2, batch: int = 32) -> nn.Module:
    """AdamW with one rise and fall of the learning rate; the model comes back in evaluation mode."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    steps = epochs * (len(images) // batch)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, lr, total_steps=steps)
    for _ in range(epochs):
        for rows in torch.randperm(len(images)).split(batch)[: len(images) // batch]:
            optimizer.zero_grad()
            F.cross_entropy(model(images[rows]), labels[rows]).backward()
            optimizer.step()
            schedule.step()
    return model.eval()


def accuracy(model: nn.Module) -> float:
    with torch.no_grad():
        return (model(test_images).argmax(1) == test_labels).double().mean().item()


# %% id=w05b-milestone
verdicts = []
for seed in tqdm(range(5), desc="seeds"):
    scores = {}
    for make in (resnet, mlp):
        torch.manual_seed(seed)
        scores[make.__name__] = accuracy(train(make(), lr=0.02))
    verdicts.append(scores["resnet"] > scores["mlp"])
print("seed   the ResNet beats the MLP")
for seed, won in enumerate(verdicts):
    print(f"{seed:4}   {'yes' if won else 'no'}")
print("in at least 4 of 5 seeds:", sum(verdicts) >= 4)
# %% [markdown] id=w05b-torch
# ## The same in PyTorch
#
# | you wrote | torch calls it |
# |---|---|
# | `BatchNorm2d` | [`nn.BatchNorm2d`](https://docs.pytorch.org/docs/2.13/generated/torch.nn.BatchNorm2d.html); `momentum=None` averages all batches alike |
# | `BasicBlock`, `SmallResNet` | [`torchvision.models.resnet18`](https://docs.pytorch.org/vision/0.28/models/generated/torchvision.models.resnet18.html) and its kin |
# | pooling to a grid | [`nn.AdaptiveAvgPool2d`](https://docs.pytorch.org/docs/2.13/generated/torch.nn.AdaptiveAvgPool2d.html) |
# | `outputs` | [`register_forward_hook`](https://docs.pytorch.org/docs/2.13/generated/torch.nn.Module.html#torch.nn.Module.register_forward_hook) |
#
# In torch's source the layer is `torch/nn/modules/batchnorm.py`, its arithmetic
# `aten/src/ATen/native/Normalization.cpp`; the block is `torchvision/models/resnet.py`, which you can now read from top
# to bottom.
# %% [markdown] id=w05b-built
# ## What you built
#
# - Batch norm measures each channel over images and places: the biased variance to normalize, the unbiased one for the
#   record.
# - Training depends on the whole batch; evaluation uses the record. Forgetting `eval()` is therefore a bug that does
#   not crash.
# - A residual block computes what to add. The shortcut fits sizes with a 1×1 convolution when it has to.
# - Weights move between networks by the names of their parts; the first part that differs is the one to look at.
# - With fewer parameters than the MLP your ResNet is right more often, because it shares them across places.
#
# The question people ask next: *do I have to train all of this myself every time?* No: take a network that somebody
# trained, and exchange its last layer. The next notebook does that.
#
# **Further reading.** S. Ioffe, C. Szegedy, [Batch normalization](https://arxiv.org/abs/1502.03167) · K. He et al.,
# [Deep residual learning for image recognition](https://arxiv.org/abs/1512.03385) · S. Santurkar et al., [How does
# batch normalization help optimization?](https://arxiv.org/abs/1805.11604), which tests the usual explanation.
# %% [markdown] id=w05b-instructor role=instructor
# **Goals.** Learners can say what batch norm does in each mode, build a residual block that takes torchvision's
# weights, and find the first of many layers that is wrong.
#
# **50 minutes.** 5 the surprise, the size of the number written down first · 15 exercise {w05.batch_norm}, the
# two-number example worked on the board, then the two variances · 10 exercise {w05.block}, the drawing copied by hand ·
# 10 exercise {w05.resnet} · 10 the milestone on the projector while the class guesses what five hidden units can know.
# Layer by layer is for home, or for the first learner whose check names a layer.
#
# **Misconceptions.** "momentum 0.1 keeps a tenth of the old" (1). "One variance for both uses" (1). "The mean of a
# channel is over the batch only" (1: per place). "The running averages are part of the graph" (1: then every batch of
# the past is kept alive). "The ReLU comes before the sum" (2). "The stride belongs to both convolutions" (2). "Average
# pooling needs the size of the picture" (3).
#
# **To think about aloud.** Why has the convolution no bias? The batch norm subtracts it again at once, and has one of
# its own. Why does the MLP lose although it can represent more? It has to learn every place anew from the same 6,000
# pictures. What would happen to the comparison if all pictures had their pixels shuffled in the same way? The MLP would
# not notice, the ResNet would lose what it knows.
