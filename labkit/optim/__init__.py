"""Optimizers and learning-rate schedules, under the names of `torch.optim`."""

from . import lr_scheduler as lr_scheduler
from .adam import Adam as Adam
from .adam import AdamW as AdamW
from .optimizer import Optimizer as Optimizer
from .rmsprop import RMSprop as RMSprop
from .sgd import SGD as SGD
