"""What several exercises of week 3 need: the lesson's module and optimizers, with parts that can be changed."""

import numpy as np


def wants_gradient(value):
    return getattr(value, "requires_grad", False)


def named_parameters(module, prefix=""):
    for name, value in module._parameters.items():
        yield prefix + name, value
    for name, child in module._modules.items():
        yield from child.named_parameters(f"{prefix}{name}.")


def set_mode(module, mode):
    module.training = mode
    for child in module._modules.values():
        child.train(mode)
    return module


def lesson_module(is_parameter=wants_gradient, named=named_parameters, train=set_mode):
    """The class of the lesson, with one part of it changed."""

    class Module:
        def __init__(self):
            self.__dict__.update(_parameters={}, _modules={}, training=True)

        def __setattr__(self, name, value):
            if isinstance(value, Module):
                self._modules[name] = value
            elif is_parameter(value):
                self._parameters[name] = value
            object.__setattr__(self, name, value)

        def named_parameters(self, prefix=""):
            return named(self, prefix)

        def train(self, mode=True):
            return train(self, mode)

        def eval(self):
            return self.train(False)

        def __call__(self, x):
            return self.forward(x)

    return Module


class Parameter:
    """What an optimizer sees: numbers and their gradient, here as NumPy arrays."""

    def __init__(self, data, grad=None):
        self.data, self.grad = data, grad


def drive(optimizer_class, start, noise, options):
    """20 steps down a bowl with noise; what an optimizer may touch is `data` and `grad`."""
    parameters = [Parameter(x.copy()) for x in start]
    optimizer = optimizer_class(parameters, **options)
    seen, kept = {}, True
    for step in range(20):
        for p, shift in zip(parameters, noise, strict=True):
            p.grad = p.data / 2 + shift[step]
        before = [p.grad.copy() for p in parameters]
        optimizer.step()
        kept = kept and all(np.array_equal(p.grad, g) for p, g in zip(parameters, before, strict=True))
        if step in (0, 1, 19):
            seen[f"after {step + 1} step{'s' if step else ''}"] = [p.data.copy() for p in parameters]
    return {**seen, "gradients left as they are": kept}


def drive_torch(optimizer_class, start, noise, options):
    parameters = [x.clone() for x in start]
    optimizer = optimizer_class(parameters, **options)
    seen = {}
    for step in range(20):
        for p, shift in zip(parameters, noise, strict=True):
            p.grad = p / 2 + shift[step]
        optimizer.step()
        if step in (0, 1, 19):
            seen[f"after {step + 1} step{'s' if step else ''}"] = [p.clone() for p in parameters]
    return {**seen, "gradients left as they are": True}


def walk(draw, *shapes):
    return {"start": [draw.normal(*s) for s in shapes], "noise": [draw.normal(20, *s) for s in shapes]}


def optimizer_of(update, **defaults):
    """An optimizer class from a function update(p, state, step, **options)."""

    class Optimizer:
        def __init__(self, parameters, **options):
            self.parameters, self.options = list(parameters), {**defaults, **options}
            self.state, self.steps = [{} for _ in self.parameters], 0

        def step(self):
            self.steps += 1
            for p, state in zip(self.parameters, self.state, strict=True):
                update(p, state, self.steps, **self.options)

    return Optimizer


def lazily(make):
    """A class made when it is first used, so that torch is not imported for the declaration."""

    def build(*inputs):
        return make()(*inputs)

    return build
