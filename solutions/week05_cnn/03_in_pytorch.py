# %% [markdown] id=w05c-title
# # Week 5 · 03 In PyTorch
#
# In about 45 minutes you will know torch's convolution layers and torchvision's models well enough to open one up, take
# what any layer of it computes, and put a new last layer on it. At the end a network that knows seven kinds of clothes
# learns three others from two pictures of each.
# %% id=w05c-setup role=setup
import torch
import torch.nn.functional as F
from torch import nn

from labkit import check, compat, datasets, viz

torchvision = compat.torchvision()
# One thread: for models this small more of them cost more than they bring, and with one the sums come out
# the same however many cores a machine has.
torch.set_num_threads(1)

# %% [markdown] id=w05c-surprise
# ## A surprise first
#
# ResNet-18, the network of a thousand papers: 18 layers, 20 convolutions and a linear layer. Where do you expect most
# of its parameters: at the beginning, where the pictures are large, or at the end? And where most of the work? Decide,
# then run it.
# %% id=w05c-surprise-code
model = torchvision.models.resnet18(weights=None)  # random weights: nothing is downloaded
total = sum(p.numel() for p in model.parameters())
places = {
    "conv1": 112,
    "layer1": 56,
    "layer2": 28,
    "layer3": 14,
    "layer4": 7,
    "fc": 1,
}  # side of its output, for 224 by 224
print(f"{'part':8}{'parameters':>12}{'share':>8}{'multiplications':>18}")
for name, side in places.items():
    layers = [part for part in model.get_submodule(name).modules() if isinstance(part, nn.Conv2d | nn.Linear)]
    parameters = sum(p.numel() for p in model.get_submodule(name).parameters())
    work = sum(layer.weight.numel() for layer in layers) * side**2
    print(f"{name:8}{parameters:12,}{parameters / total:8.1%}{work:18,}")
print(f"{'all':8}{total:12,}")
# %% [markdown] id=w05c-surprise-after
# The last stage holds 72 % of the parameters and does no more work than the first, because its pictures are 64 times
# smaller. Parameters are paid for in memory, multiplications in time, and you counted both in notebook 01.
#
# ## The layer
#
# [`nn.Conv2d`](https://docs.pytorch.org/docs/2.13/generated/torch.nn.Conv2d.html) is your `conv2d` with parameters of
# its own:
#
# | argument | meaning |
# |---|---|
# | `Conv2d(3, 32, 3)` | channels in, filters, side of the kernel; `(3, 5)` for other than square |
# | `stride`, `padding`, `dilation`, `groups` | as you know them; `padding="same"` keeps the size at stride 1 |
# | `padding_mode="zeros"` | or `"reflect"`, `"replicate"`, `"circular"`: what stands in the frame |
# | `bias=False` | when a batch norm follows |
# %% id=w05c-layer
layer = nn.Conv2d(3, 32, 3, padding="same")
print(layer, "| weight", tuple(layer.weight.shape), "| bias", tuple(layer.bias.shape))
print("keeps the size:", tuple(layer(torch.zeros(1, 3, 20, 30)).shape))
print("nn.Conv2d(8, 8, 3, groups=8).weight:", tuple(nn.Conv2d(8, 8, 3, groups=8).weight.shape))
# %% [markdown] id=w05c-last-md
# ## Channels last
#
# The shape of a batch is (N, C, H, W), always. How it *lies in memory* is another matter, as you know since week 1:
# `x.to(memory_format=torch.channels_last)` keeps the shape and changes the strides, so that the channels of one pixel
# are neighbors. Many processors convolve faster that way, graphics cards with half precision above all. Convert the
# model and the input; every layer in between keeps the format.
# %% id=w05c-last
x = torch.arange(120.0).reshape(2, 3, 4, 5)
last = x.to(memory_format=torch.channels_last)
for name, batch in {"contiguous": x, "channels last": last}.items():
    print(f"{name:14} shape {tuple(batch.shape)}, strides {batch.stride()}")
print("same values:", torch.equal(x, last), "| flattened alike:", torch.equal(x.flatten(1), last.flatten(1)))
convolved = nn.Conv2d(3, 6, 3).to(memory_format=torch.channels_last)(last)
print("the format goes through:", convolved.is_contiguous(memory_format=torch.channels_last))


# %% [markdown] id=w05c-features-md
# ## Exercise
#
# A trained network is more than its answers: the numbers inside it, its *features*, describe a picture better than its
# pixels do. To get them out without changing the model, hang a *hook* on a layer: a function that torch calls with the
# layer, its inputs and its output, every time the layer is used.
#
# Write `features`: find the part by its name with
# [`model.get_submodule(name)`](https://docs.pytorch.org/docs/2.13/generated/torch.nn.Module.html#torch.nn.Module.get_submodule),
# hang a hook on it with
# [`register_forward_hook`](https://docs.pytorch.org/docs/2.13/generated/torch.nn.Module.html#torch.nn.Module.register_forward_hook),
# run the model, take the hook off (`handle.remove()`), return what it caught. Three cautions:
#
# - No gradient is needed: run the model under `torch.no_grad()`.
# - Keep a `clone` of the output: a ReLU that works in place would overwrite it right after your hook has seen it.
# - Leave nothing behind, neither a hook, which would be called for ever, nor another mode than the model had.
# %% id=w05c-features role=exercise ex=w05.features
def features(model: nn.Module, name: str, x: torch.Tensor) -> torch.Tensor:
    """The output of the part called `name` when the model runs on x, without gradient; the model stays as it was."""
    ### BEGIN SOLUTION
    caught = []
    handle = model.get_submodule(name).register_forward_hook(
        lambda part, inputs, output: caught.append(output.clone())
    )
    with torch.no_grad():
        model(x)
    handle.remove()
    return caught.pop()
    ### END SOLUTION


# %% id=w05c-features-check role=check ex=w05.features
check("w05.features", features)
# %% id=w05c-features-demo
model.eval()
picture = torch.randn(1, 3, 224, 224, generator=torch.Generator().manual_seed(0))
for name in ("conv1", "layer1", "layer3.1.conv2", "layer4", "avgpool"):
    print(f"{name:15} {tuple(features(model, name, picture).shape)}")


# %% [markdown] id=w05c-transfer-md
# ## Exercise
#
# *Transfer learning*: somebody has trained a network on much data; you have little. Its first layers find edges and
# shapes that your pictures have as well. So keep them as they are, *frozen*, and train only a new last layer.
#
# Freezing is one attribute: a parameter with `requires_grad = False` gets no gradient, and the optimizer leaves it
# alone. Freeze every parameter of the model, then exchange its last layer `model.fc` for a new `nn.Linear` with as many
# inputs as the old one (`model.fc.in_features`) and one output per class. Parameters of a new layer want gradients from
# the start. Return the model.
# %% id=w05c-transfer role=exercise ex=w05.transfer
def transfer(model: nn.Module, classes: int) -> nn.Module:
    """The same model, all parameters frozen but those of a new last layer `fc` for other classes."""
    ### BEGIN SOLUTION
    for parameter in model.parameters():
        parameter.requires_grad = False
    model.fc = nn.Linear(model.fc.in_features, classes)
    return model
    ### END SOLUTION


# %% id=w05c-transfer-check role=check ex=w05.transfer
check("w05.transfer", transfer)
# %% [markdown] id=w05c-frozen-md
# One trap remains. Batch norm has numbers that are not parameters: its running averages. In training mode they move,
# frozen or not, and your frozen network is no longer the one you took over. So a frozen part also belongs in evaluation
# mode, `model.eval()`.
#
# ## Two pictures of each
#
# No weights are downloaded here, so train a network first: on seven of the ten kinds of clothes, without dresses, bags
# and boots. It takes about ten seconds.
# %% id=w05c-base
clothes, unseen = datasets.fashion_mnist("train"), datasets.fashion_mnist("test")
images, labels = torch.from_numpy(clothes.images)[:, None], torch.from_numpy(clothes.labels)
test_images, test_labels = torch.from_numpy(unseen.images)[:, None], torch.from_numpy(unseen.labels)
mean, std = images.mean(), images.std()
images, test_images = (images - mean) / std, (test_images - mean) / std
new = torch.tensor([3, 8, 9])  # dress, bag, ankle boot
old = torch.tensor([kind for kind in range(10) if kind not in new])


class Net(nn.Module):
    """Three convolutions, then a linear layer called `fc`, as torchvision's models have it."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        parts = []
        for channels_in, channels in ((1, 8), (8, 16), (16, 32)):
            parts += [nn.Conv2d(channels_in, channels, 3, stride=2, padding=1, bias=False)]
            parts += [nn.BatchNorm2d(channels), nn.ReLU()]
        self.body = nn.Sequential(*parts, nn.AdaptiveAvgPool2d(2), nn.Flatten())  # (N, 128)
        self.fc = nn.Linear(128, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(self.body(x))


def train(model: nn.Module, x: torch.Tensor, y: torch.Tensor, steps: int, batch: int = 64) -> None:
    trainable = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trainable, lr=0.01)
    for _ in range(steps):
        rows = torch.randint(len(x), (batch,)) if len(x) > batch else slice(None)
        optimizer.zero_grad()
        F.cross_entropy(model(x[rows]), y[rows]).backward()
        optimizer.step()


def accuracy(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> float:
    model.eval()
    with torch.no_grad():
        return (model(x).argmax(1) == y).double().mean().item()


def rows_of(kinds: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The rows whose label is among `kinds`, and their labels counted from 0."""
    found = labels[:, None] == kinds  # (n, kinds)
    return found.any(1).nonzero()[:, 0], found.int().argmax(1)[found.any(1)]


torch.manual_seed(0)
base = Net(len(old))
rows, kinds = rows_of(old, labels)
train(base, images[rows], kinds, steps=600)
rows, kinds = rows_of(old, test_labels)
print(
    "the seven kinds it was trained on, at least 3 of 4 right:",
    accuracy(base, test_images[rows], kinds) > 0.75,
)
# %% [markdown] id=w05c-fewshot-md
# Now the three others, from two pictures of each. One network starts from nothing and may change all its weights. The
# other one is `base` with a new head by your `transfer`. Both take 100 steps on the same six pictures and are tested on
# the 600 test pictures of these kinds. Five times, with other pictures. Which one wins, and how surely?
# %% id=w05c-fewshot
rows, kinds = rows_of(new, test_labels)
weights = {name: value.clone() for name, value in base.state_dict().items()}
print("round   frozen features beat a network from scratch")
for seed in range(5):
    random = torch.Generator().manual_seed(seed)
    picked = [torch.nonzero(labels == kind)[:, 0] for kind in new]
    few = torch.cat([rows_[torch.randperm(len(rows_), generator=random)[:2]] for rows_ in picked])
    answers = torch.arange(3).repeat_interleave(2)
    torch.manual_seed(seed)
    scratch = Net(3)
    train(scratch, images[few], answers, steps=100)
    frozen = Net(len(old))
    frozen.load_state_dict(weights)
    frozen = transfer(frozen, 3).eval()
    train(frozen, images[few], answers, steps=100)
    better = accuracy(frozen, test_images[rows], kinds) > accuracy(scratch, test_images[rows], kinds)
    print(f"{seed:5}   {'yes' if better else 'no'}")
# %% id=w05c-fewshot-pictures
viz.image_grid(
    images[few, 0],
    titles=[clothes.classes[kind] for kind in labels[few]],
    title="all that the last one was trained on",
)
# %% [markdown] id=w05c-torch
# ## Where to look it up
#
# | topic | page |
# |---|---|
# | layers | [`nn.Conv2d`](https://docs.pytorch.org/docs/2.13/generated/torch.nn.Conv2d.html), [`nn.MaxPool2d`](https://docs.pytorch.org/docs/2.13/generated/torch.nn.MaxPool2d.html), [`nn.BatchNorm2d`](https://docs.pytorch.org/docs/2.13/generated/torch.nn.BatchNorm2d.html) |
# | models and their weights | [torchvision.models](https://docs.pytorch.org/vision/0.28/models.html): `resnet18(weights="DEFAULT")` downloads trained ones |
# | features by name | [`create_feature_extractor`](https://docs.pytorch.org/vision/0.28/feature_extraction.html), which rewrites the model instead of hooking it |
# | hooks | [`Module.register_forward_hook`](https://docs.pytorch.org/docs/2.13/generated/torch.nn.Module.html#torch.nn.Module.register_forward_hook) |
# | channels last | [`torch.memory_format`](https://docs.pytorch.org/docs/2.13/tensor_attributes.html#torch-memory-format) |
#
# In torch's source the layers are `torch/nn/modules/conv.py`, `pooling.py` and `batchnorm.py`; torchvision's ResNets
# are `torchvision/models/resnet.py`. A model with downloaded weights also needs the preprocessing that it was trained
# with: `torchvision.models.ResNet18_Weights.DEFAULT.transforms()`.
# %% [markdown] id=w05c-built
# ## What you know now
#
# - Parameters sit at the end of a ResNet, work is spread evenly: each halving of the side allows twice the channels.
# - `channels_last` changes strides, never shapes.
# - A forward hook reads any layer of any model. Clone what it sees, and take it off again.
# - `requires_grad = False` freezes parameters; `eval()` freezes running averages. Transfer learning needs both.
# - Features learned on other classes are worth more than a fresh start when pictures are few.
#
# The question people ask next: *what does the network look at?* The clinic shows it, and finds a network that looks at
# the wrong thing.
#
# **Further reading.** J. Yosinski et al., [How transferable are features in deep neural
# networks?](https://arxiv.org/abs/1411.1792) · torch's tutorial on [transfer
# learning](https://docs.pytorch.org/tutorials/beginner/transfer_learning_tutorial.html) · torch's tutorial on [channels
# last](https://docs.pytorch.org/tutorials/intermediate/memory_format_tutorial.html).
# %% [markdown] id=w05c-instructor role=instructor
# **Goals.** Learners can read the printout of a torchvision model, take the output of any layer, and freeze a network
# with a new head.
#
# **50 minutes.** 10 the surprise, both columns guessed first · 5 the layer and its arguments · 5 channels last, strides
# predicted before the cell runs · 15 exercise {w05.features}; leave one hook on purpose and run the model twice · 10
# exercise {w05.transfer} · 5 the six pictures and the table.
#
# **Misconceptions.** "Large pictures need many parameters" (surprise). "channels_last is shape (N, H, W, C)": the shape
# stays. "A hook sees the final answer" (1). "The output that a hook saw stays as it was" (1: overwritten in place).
# "Freezing after the new head" (2: then nothing is trained at all). "Frozen parameters are enough" (batch norm goes on
# moving).
#
# **To think about aloud.** Why does the network from scratch do as well as it does with six pictures? Dresses, bags and
# boots differ in outline; try `new = [2, 4, 6]`, pullover, coat and shirt, where both are poor. When is it worth to
# unfreeze? With more pictures, at a tenth of the learning rate, the last block first.
