"""A class that finds its parameters and its children by itself."""

from labkit.exercises.declare import Case, Implement, Mistake, Rules
from labkit.exercises.week03.shared import lesson_module, set_mode
from labkit.lazy import torch


def _parameter_of(shape):
    return torch.zeros(shape, requires_grad=True)


def _grow(module_class, tree, parameter):
    """A tree of modules: dicts are modules, tuples the shapes of parameters, lists plain tensors."""
    module = module_class()
    for name, value in tree.items():
        if isinstance(value, dict):
            setattr(module, name, _grow(module_class, value, parameter))
        elif isinstance(value, tuple):
            setattr(module, name, parameter(value))
        else:
            setattr(module, name, torch.tensor(value) if isinstance(value, list) else value)
    return module


def _modes(module, tree, path="model"):
    found = {path: module.training}
    for name, value in tree.items():
        if isinstance(value, dict):
            found |= _modes(getattr(module, name), value, f"{path}.{name}")
    return found


def _use_module(module_class, tree, again, parameter=_parameter_of):
    model = _grow(module_class, tree, parameter)
    for name, shape in again.items():
        setattr(model, name, parameter(shape))
    result = {
        "names and shapes": [f"{name} {tuple(p.shape)}" for name, p in model.named_parameters()],
        "attributes": [name for name in {**tree, **again} if hasattr(model, name)],
        "fresh": _modes(model, tree),
    }
    result["eval() returns the module"] = model.eval() is model
    result["after eval()"] = _modes(model, tree)
    children = [name for name, value in tree.items() if isinstance(value, dict)]
    for name in children[:1]:
        getattr(model, name).train()
    result["after train() of the first child"] = _modes(model, tree)
    return result


def _module_truth(tree, again):
    return _use_module(torch.nn.Module, tree, again, lambda shape: torch.nn.Parameter(torch.zeros(shape)))


def _own_only(module, prefix):
    for name, value in module._parameters.items():
        yield prefix + name, value


def _without_names(module, prefix):
    yield from _own_only(module, prefix)
    for child in module._modules.values():
        yield from child.named_parameters()


def _without_dots(module, prefix):
    yield from _own_only(module, prefix)
    for name, child in module._modules.items():
        yield from child.named_parameters(prefix + name)


def _last_name_only(module, prefix):
    yield from _own_only(module, prefix)
    for name, child in module._modules.items():
        yield from child.named_parameters(f"{name}.")


def _children_first(module, prefix):
    for name, child in module._modules.items():
        yield from child.named_parameters(f"{prefix}{name}.")
    yield from _own_only(module, prefix)


def _children_only(module, prefix):
    yield from _own_only(module, prefix)
    for name, child in module._modules.items():
        yield from _own_only(child, f"{prefix}{name}.")


def _path_twice(module, prefix):
    yield from _own_only(module, prefix)
    for name, child in module._modules.items():
        yield from ((prefix + path, value) for path, value in child.named_parameters(f"{prefix}{name}."))


def _train_silent(module, mode):
    set_mode(module, mode)


def _train_top(module, mode):
    module.training = mode
    return module


def _train_always(module, mode):
    return set_mode(module, True)


exercise = Implement(
    title="A module knows its parameters",
    minutes=15,
    engine="python",
    cases=[
        Case("one layer", lambda draw: {"tree": {"weight": (4, 3), "bias": (4,)}, "again": {}}),
        Case(
            "two children",
            lambda draw: {
                "tree": {
                    "first": {"weight": (5, 2)},
                    "scale": (1,),
                    "second": {"weight": (3, 5), "bias": (3,)},
                },
                "again": {},
            },
        ),
        Case(
            "a child of a child",
            lambda draw: {"tree": {"body": {"head": {"weight": (2, 7)}, "bias": (2,)}}, "again": {}},
        ),
        Case(
            "what is no parameter",
            lambda draw: {
                "tree": {"rate": 0.5, "mean": [1.0, 2.0], "name": "net", "weight": (6,)},
                "again": {},
            },
        ),
        Case(
            "a parameter replaced",
            lambda draw: {"tree": {"weight": (2, 3), "bias": (2,)}, "again": {"weight": (4, 1)}},
        ),
        Case("nothing inside", lambda draw: {"tree": {}, "again": {}}, extreme=True),
    ],
    oracle=_module_truth,
    use=_use_module,
    rules=Rules(
        forbids=("Module", "ModuleDict", "ModuleList", "ParameterDict", "register_parameter", "add_module")
    ),
    delegate=lambda: torch.nn.Module(),
    mistakes=[
        Mistake(
            "children not asked",
            "Only the module's own parameters are listed: ask each child for its own as well.",
            lesson_module(named=_own_only),
        ),
        Mistake(
            "child's name lost",
            "The parameters of the children are there, under the wrong names: put the child's name and a dot in front.",
            lesson_module(named=_without_names),
        ),
        Mistake(
            "no dot",
            "The dot between the child's name and the parameter's is missing: `first.weight`.",
            lesson_module(named=_without_dots),
        ),
        Mistake(
            "path forgotten",
            "One level deep the names are right, two levels deep the beginning is lost: hand the prefix on.",
            lesson_module(named=_last_name_only),
        ),
        Mistake(
            "children first",
            "The children come first; torch lists a module's own parameters before theirs.",
            lesson_module(named=_children_first),
        ),
        Mistake(
            "every tensor",
            "Every tensor is taken for a parameter. Only one with `requires_grad` is to be trained.",
            lesson_module(is_parameter=lambda value: hasattr(value, "requires_grad")),
        ),
        Mistake(
            "one level deep",
            "The children's own parameters are listed, their children's are not: ask each child's `named_parameters`.",
            lesson_module(named=_children_only),
        ),
        Mistake(
            "path written twice",
            "Two levels deep the beginning of the path comes twice: the child has put it in front already.",
            lesson_module(named=_path_twice),
        ),
        Mistake(
            "train returns nothing",
            "`train` returns None; it returns the module, so that `model.eval()` can stand in an expression.",
            lesson_module(train=_train_silent),
        ),
        Mistake(
            "mode of the top",
            "`train` changes this module only. A dropout layer three levels down would never hear of it.",
            lesson_module(train=_train_top),
        ),
        Mistake(
            "always training",
            "`mode` is not used: `eval` calls `train(False)`, and nothing changes.",
            lesson_module(train=_train_always),
        ),
    ],
    hints=(
        "Python calls __setattr__ for every `self.name = value`. Sort the value into the right dict, then set it as usual.",
        "isinstance(value, Module) -> self._modules; value with requires_grad -> self._parameters; then super().__setattr__(name, value).",
        'named_parameters: yield prefix + name for the own ones; then `yield from child.named_parameters(f"{prefix}{name}.")`',
    ),
    passed="torch's nn.Module does the same in __setattr__: this is why a layer in a plain list is invisible to it.",
)
