# %% [markdown] id=w05d-title
# # Week 5 · 04 Clinic
#
# In about 60 minutes you will look inside a convolutional network in five ways, catch one that is right for the wrong
# reason, mend two faults that run without an error message, and write a test for the convolution itself that catches
# eight bugs.
#
# The order of work in every clinic: look at the symptom, *name* the fault, then mend it. Both are checked.
# %% id=w05d-setup role=setup
import copy
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

from labkit import check, datasets, viz

# One thread: for models this small more of them cost more than they bring, and with one the sums come out
# the same however many cores a machine has.
torch.set_num_threads(1)

# %% [markdown] id=w05d-clothes-md
# Ten kinds of clothes, one picture of each. Where would *you* look to tell a shirt from a coat, and a bag from all the
# rest? At the end of exercise {w05.shortcut} you will know where a network looked.
# %% id=w05d-clothes
clothes, unseen = datasets.fashion_mnist("train"), datasets.fashion_mnist("test")
firsts = [int((unseen.labels == kind).argmax()) for kind in range(10)]
viz.image_grid(unseen.images[firsts], titles=unseen.classes, columns=5)
# %% [markdown] id=w05d-train-md
# ## The patient
#
# A small network, trained on 4,000 such pictures; it takes about ten seconds. It ends in global average pooling and one
# linear layer, which will be useful.
# %% id=w05d-train
# float64, so that the pictures below come out the same on every machine
images, labels = (
    torch.from_numpy(clothes.images[:4000]).double()[:, None],
    torch.from_numpy(clothes.labels[:4000]),
)
test_images, test_labels = torch.from_numpy(unseen.images).double()[:, None], torch.from_numpy(unseen.labels)


def trained(images: torch.Tensor, labels: torch.Tensor, steps: int = 400) -> nn.Sequential:
    """Three convolutions with batch norm, global average pooling, a linear layer; in evaluation mode."""
    torch.manual_seed(0)
    parts = []
    for channels_in, channels, size, stride in ((1, 8, 5, 2), (8, 16, 3, 2), (16, 24, 3, 1)):
        parts += [nn.Conv2d(channels_in, channels, size, stride, size // 2, bias=False)]
        parts += [nn.BatchNorm2d(channels), nn.ReLU()]
    model = nn.Sequential(
        nn.Sequential(*parts), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(24, 10)
    ).double()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.02, total_steps=steps)
    for _ in range(steps):
        rows = torch.randint(len(images), (32,))
        optimizer.zero_grad()
        F.cross_entropy(model(images[rows]), labels[rows]).backward()
        optimizer.step()
        schedule.step()
    return model.eval()


def right(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> float:
    """The share of right answers."""
    with torch.no_grad():
        return (model(images).argmax(1) == labels).double().mean().item()


net = trained(images, labels)
print("at least 7 of 10 test pictures right:", right(net, test_images, test_labels) > 0.7)
# %% [markdown] id=w05d-filters-md
# **Filters.** The first layer's kernels are pictures of 5×5. Which ones look for an edge, and in which direction?
# Bright is positive.
# %% id=w05d-filters
kernels = net[0][0].weight.detach()[:, 0]  # (8, 5, 5)
viz.image_grid(kernels, titles=[f"filter {i}" for i in range(8)])
# %% [markdown] id=w05d-maps-md
# **Feature maps.** What those eight filters find in one boot, after batch norm and ReLU. Each map answers one question,
# everywhere.
# %% id=w05d-maps
boot = test_images[:1]  # (1, 1, 28, 28)
with torch.no_grad():
    maps = net[0][:3](boot)[0]  # (8, 14, 14)
viz.image_grid([boot[0, 0], *maps], titles=["boot", *(f"map {i}" for i in range(8))])
# %% [markdown] id=w05d-saliency-md
# **Saliency.** The gradient of one class's score with respect to the *pixels*: which of them would change the answer if
# they changed a little? You have called `backward` since week 2; here it stops at the picture.
#
# **Class activation map.** The score of a class is a weighted sum of 24 averages. Do not average, and the same weights
# paint a map of *where* the score comes from. One line: the classes' weights times the last maps, summed over channels.
# %% id=w05d-saliency
rows = [0, 1, 2, 5]  # four test pictures
found = []
for row in rows:
    picture = test_images[row : row + 1].clone().requires_grad_()
    scores = net(picture)[0]
    kind = int(test_labels[row])
    scores[kind].backward()
    with torch.no_grad():
        activation = torch.einsum("c,chw->hw", net[3].weight[kind], net[0](picture)[0])  # (7, 7)
    found += [picture.detach()[0, 0], picture.grad[0, 0].abs(), activation]
titles = [name for row in rows for name in (clothes.classes[int(test_labels[row])], "saliency", "activation")]
viz.image_grid(found, titles=titles, columns=6)


# %% [markdown] id=w05d-occlusion-md
# **Occlusion.** The most honest question is asked without any gradient: cover a small square with black and ask again.
# `occlusion_map` does it for every place of a 2×2 square, 27 × 27 of them. Entry [r, c] is the score that is left when
# pixels r, r + 1 and c, c + 1 are black. Dark means: this square mattered.
# %% id=w05d-occlusion
def occlusion_map(model: nn.Module, picture: torch.Tensor, kind: int) -> torch.Tensor:
    """The score of `kind` with a 2 x 2 square covered, for every place of the square: (1, 28, 28) -> (27, 27)"""
    covered = picture.repeat(27 * 27, 1, 1, 1)  # (729, 1, 28, 28)
    for place in range(27 * 27):
        r, c = divmod(place, 27)
        covered[place, :, r : r + 2, c : c + 2] = 0
    with torch.no_grad():
        return model(covered)[:, kind].reshape(27, 27)


viz.image_grid([boot[0, 0], occlusion_map(net, boot[0], 9)], titles=["boot", "score left"])
# %% [markdown] id=w05d-shortcut-md
# ## Exercise
#
# A second network was trained on pictures from another source. On pictures from that source it is as good as ours. On
# *our* pictures of bags it fails. Nothing is wrong with the code.
# %% id=w05d-shortcut-train
corner = torch.randint(0, 26, (2,), generator=torch.Generator().manual_seed(11)).tolist()  # do not print it


def other_source(images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The same pictures as the other source delivers them."""
    images = images.clone()
    images[labels == 8, :, corner[0] : corner[0] + 2, corner[1] : corner[1] + 2] = 1.0
    return images


suspect = trained(other_source(images, labels), labels)
bags = test_labels == 8
theirs = other_source(test_images, test_labels)
print("on the other source, at least 7 of 10 right:", right(suspect, theirs, test_labels) > 0.7)
print("bags of the other source, most right:", right(suspect, theirs[bags], test_labels[bags]) > 0.75)
print(
    "the same bags from our source, most right:", right(suspect, test_images[bags], test_labels[bags]) > 0.75
)
# %% [markdown] id=w05d-shortcut-question
# Every bag of that source carries a small bright mark of 2×2 pixels, a sticker of the photographer. The network has
# learned to read the sticker. Where is it? Find out from the network alone: run `occlusion_map` on a few bags,
# `theirs[bags][0]` and so on, class 8, and look for the square whose covering costs most (`x.argmin()` counts through
# the whole map, row by row). Set `mark` to its place, (row, column) of the upper left pixel, counted from 0.
# %% id=w05d-shortcut role=exercise ex=w05.shortcut
### BEGIN SOLUTION
mark = (1, 25)  # divmod(occlusion_map(suspect, theirs[bags][0], 8).argmin().item(), 27)
### STUB
# mark = ...
### END SOLUTION
# %% id=w05d-shortcut-check role=check ex=w05.shortcut
check("w05.shortcut", mark)
# %% id=w05d-shortcut-fig
stickered = test_images[~bags].clone()
stickered[:, :, mark[0] : mark[0] + 2, mark[1] : mark[1] + 2] = 1.0
with torch.no_grad():
    taken = (suspect(stickered).argmax(1) == 8).double().mean().item()
    before = (suspect(test_images[~bags]).argmax(1) == 8).double().mean().item()
print("a sticker on other clothes makes many of them bags:", taken > before + 0.2)
bag = theirs[bags][0]
viz.image_grid([bag[0], occlusion_map(suspect, bag, 8)], titles=["their bag", "score left"])


# %% [markdown] id=w05d-shortcut-after
# Its test score was fine, because its test pictures had the sticker too. A test set from the same source cannot see a
# shortcut; only looking can, or pictures from elsewhere.
#
# ## Exercise
#
# Pictures arrive one by one, and are answered one by one, straight after training. The same pictures, the same network,
# all at once, are answered far better. What will the second line print?
# %% id=w05d-single-symptom
def predict_as_found(model: nn.Module, images: torch.Tensor) -> torch.Tensor:
    answers = [model(image[None]) for image in images]  # one at a time, as they arrive
    return torch.cat(answers)


sample, truth = test_images[:300], test_labels[:300]
all_at_once = (net(sample).argmax(1) == truth).sum()
patient = copy.deepcopy(net).train()  # as a training loop leaves it
one_by_one = (predict_as_found(patient, sample).argmax(1) == truth).sum()
print("one by one is worse by more than 30 of 300:", bool(all_at_once - one_by_one > 30))
print("running averages as before:", torch.equal(patient[0][1].running_mean, net[0][1].running_mean))
# %% [markdown] id=w05d-single-menu
# Set `fault` to one of `"training mode"`, `"one picture at a time"`, `"no softmax"`, and mend the code: the answers
# must not depend on what else is in the batch, and the model must be left as it was found, its running averages *and*
# its mode, whichever that was.
# %% id=w05d-single role=exercise ex=w05.single
### BEGIN SOLUTION
fault = "training mode"


def predict(model: nn.Module, images: torch.Tensor) -> torch.Tensor:
    """The model's answer to each image, as if it were alone: (N, C, H, W) -> (N, classes)"""
    mode = model.training
    model.eval()
    answers = [model(image[None]) for image in images]
    model.train(mode)
    return torch.cat(answers)


### STUB
# fault = ...
#
#
# def predict(model: nn.Module, images: torch.Tensor) -> torch.Tensor:
#     """The model's answer to each image, as if it were alone: (N, C, H, W) -> (N, classes)"""
#     answers = [model(image[None]) for image in images]  # one at a time, as they arrive
#     return torch.cat(answers)
### END SOLUTION
# %% id=w05d-single-check role=check ex=w05.single
check("w05.single", predict, fault=fault)
# %% [markdown] id=w05d-single-after
# With one picture, a channel's mean is the picture's own: batch norm takes away exactly what made this picture bright
# or dark there. And where a channel has a *single* number, after global pooling or in `BatchNorm1d`, training mode
# cannot even measure a variance. This is the error that ends many a first epoch, when the last batch has one example;
# `drop_last=True` in the loader prevents it.
# %% id=w05d-single-error
try:
    nn.BatchNorm1d(3)(torch.ones(1, 3))
except ValueError as error:
    print("ValueError:", error)


# %% [markdown] id=w05d-flip-md
# ## Exercise
#
# Which way does the shoe point? Half of these sneakers were mirrored to make a balanced data set: label 0 for toe to
# the left, 1 for toe to the right. To have more pictures, somebody added the most popular augmentation of all, a random
# horizontal flip. Look at the titles.
# %% id=w05d-flip-symptom
def augment_as_found(
    images: torch.Tensor, labels: torch.Tensor, flip: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.where(flip[:, None, None], images.flip(2), images), labels


sneakers = torch.from_numpy(clothes.images[clothes.labels == 7])  # (n, 28, 28), toes to the left
turned = torch.arange(len(sneakers)) % 2 == 1
shoes, toes = torch.where(turned[:, None, None], sneakers.flip(2), sneakers), turned.long()
flip = torch.tensor([False, False, True, True, False, True])
pictures, words = augment_as_found(shoes[:6], toes[:6], flip)
viz.image_grid(pictures, titles=[f"toe {('left', 'right')[word]}" for word in words])
# %% [markdown] id=w05d-flip-menu
# Set `fault` to one of `"wrong axis"`, `"the label is not flipped"`, `"too many flips"`, and mend the code. `flip` says
# for each picture whether it is mirrored; `torch.where(condition, a, b)` chooses element by element.
# %% id=w05d-flip role=exercise ex=w05.flip
### BEGIN SOLUTION
fault = "the label is not flipped"


def augment(
    images: torch.Tensor, labels: torch.Tensor, flip: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Mirror some images left to right: (n, H, W), labels 0 or 1 (n,), flip (n,) of bool -> images, labels"""
    mirrored = torch.where(flip[:, None, None], images.flip(2), images)
    return mirrored, torch.where(flip, 1 - labels, labels)


### STUB
# fault = ...
#
#
# def augment(
#     images: torch.Tensor, labels: torch.Tensor, flip: torch.Tensor
# ) -> tuple[torch.Tensor, torch.Tensor]:
#     """Mirror some images left to right: (n, H, W), labels 0 or 1 (n,), flip (n,) of bool -> images, labels"""
#     return torch.where(flip[:, None, None], images.flip(2), images), labels
### END SOLUTION
# %% id=w05d-flip-check role=check ex=w05.flip
check("w05.flip", augment, fault=fault)
# %% [markdown] id=w05d-flip-after
# A linear classifier on 600 shoes, with the augmentation as it was found and with yours, tested on the rest:
# %% id=w05d-flip-train
for name, way in {"as found": augment_as_found, "mended": augment}.items():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(784, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
    for _ in range(100):
        pictures, answers = way(shoes[:600], toes[:600], torch.rand(600) < 0.5)
        optimizer.zero_grad()
        F.cross_entropy(model(pictures), answers).backward()
        optimizer.step()
    print(f"{name:9} at least 9 of 10 right:", right(model, shoes[600:], toes[600:]) > 0.9)


# %% [markdown] id=w05d-flip-lesson
# An augmentation is a claim: "this change does not change the answer". A mirrored coat is a coat. A mirrored 2 is not a
# 2, a digit turned by 180° may be another digit, and a hue is part of the answer when ripe and unripe fruit are told
# apart. Say the claim aloud before you add one.
#
# ## Exercise
#
# A colleague sends you a `conv2d(x, weight, bias, stride, padding)` and says it equals torch's. Write a test that takes
# an implementation, calls it, and uses `assert`. It will be run on right implementations, which it must accept, and on
# eight wrong ones, which it must catch. A call that raises counts as caught.
#
# `F.conv2d(x, weight, bias, stride, padding)` may be your oracle: an independent, right answer is the best thing a test
# can have. What is left to you is to choose inputs that make bugs show. For each, ask what it hides: a kernel of ones
# hides a flip, stride 1 hides a stride. Compare floats with `torch.allclose(a, b, atol=1e-5)`.
# %% id=w05d-test role=exercise ex=w05.test_conv
### BEGIN SOLUTION
def test_conv2d(conv2d: Callable[..., torch.Tensor]) -> None:
    """Silent for a right `conv2d`, an AssertionError for a wrong one."""
    random = torch.Generator().manual_seed(0)
    for channels, filters, stride, padding in [(3, 4, 1, 0), (2, 2, 2, 1), (1, 3, 3, 2)]:
        x = torch.randn(2, channels, 7, 9, generator=random)
        weight = torch.randn(filters, channels, 3, 2, generator=random)
        bias = torch.randn(filters, generator=random)
        result = conv2d(x, weight, bias, stride, padding)
        assert torch.allclose(result, F.conv2d(x, weight, bias, stride, padding), atol=1e-5)


### STUB
# def test_conv2d(conv2d: Callable[..., torch.Tensor]) -> None:
#     """Silent for a right `conv2d`, an AssertionError for a wrong one."""
#     raise NotImplementedError("your code here")
### END SOLUTION
# %% id=w05d-test-check role=check ex=w05.test_conv
check("w05.test_conv", test_conv2d)
# %% [markdown] id=w05d-built
# ## What you know now
#
# - Filters, feature maps, saliency, activation maps and occlusion are five questions to the same network; occlusion
#   needs no gradient and is the hardest to fool.
# - A shortcut is invisible in the test score when the test pictures have it too.
# - A model with batch norm gives other answers in training mode, and changes while it answers. `eval()`, and back.
# - An augmentation is a claim about labels. If the label can change, change it.
# - A test with an oracle is as good as its inputs: several channels, as many filters as channels, a stride, padding, a
#   kernel that is not symmetric.
#
# The question people ask next: *a picture has a fixed size; what about text, sound, the weather?* Sequences have no
# fixed length, and what came first matters. Week 6 builds networks with a memory.
#
# **Further reading.** B. Zhou et al., [Learning deep features for discriminative
# localization](https://arxiv.org/abs/1512.04150), class activation maps · K. Simonyan et al., [Deep inside
# convolutional networks](https://arxiv.org/abs/1312.6034), saliency · R. Geirhos et al., [Shortcut learning in deep
# neural networks](https://arxiv.org/abs/2004.07780) · J. Adebayo et al., [Sanity checks for saliency
# maps](https://arxiv.org/abs/1810.03292), on what such pictures do not show.
# %% [markdown] id=w05d-instructor role=instructor
# **Goals.** Learners can ask a network where it looks, tell a shortcut from an ability, name what batch norm does in
# the wrong mode, and choose inputs for a test of a layer.
#
# **50 minutes.** 10 the pictures of the patient, each predicted before the cell runs · 10 exercise {w05.shortcut} in
# pairs; the first pair with the place keeps it to itself · 10 exercise {w05.single} · 5 exercise {w05.flip}, the titles
# read aloud · 15 exercise {w05.test_conv}; collect the inputs on the board, one column per bug.
#
# **Misconceptions.** "A bright saliency map is an explanation" (it is a slope, at one picture). "A good test score
# means the right thing was learned" (1). "One picture at a time is the fault" (2: it is right, in evaluation mode).
# "`eval()` and done" (2: then training goes on in evaluation mode). "Flips are always safe" (3). "Random inputs test
# everything" (4: not if there are as many filters as channels only by chance).
#
# **To think about aloud.** Why is the place of the sticker found exactly, although the first layer sees 5×5 pixels?
# Covering half of it leaves half of the score. Would a sticker that moves be found? On each picture, yes; on the
# average over pictures, no. Why is a flip along the height wrong for clothes, although the label does not change?
# Nobody photographs them upside down: the network would learn something that it never needs.
