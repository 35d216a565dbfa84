"""Optimizers and learning-rate schedules, under the names of `torch.optim`."""

# ruff: noqa: F401
from . import lr_scheduler
from .adam import Adam, AdamW
from .optimizer import Optimizer
from .rmsprop import RMSprop
from .sgd import SGD
