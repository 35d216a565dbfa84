"""Square Conv1D weights that are not transposed: name the fault and mend it."""

from labkit.exercises.declare import Case, Fix, Mistake
from labkit.exercises.week07.shared import by_name


def _to_linear(state):
    return {name: value.T if name.endswith(".weight") else value for name, value in state.items()}


def _to_linear_as_found(state):
    converted = {}
    for name, value in state.items():
        rows, columns = value.shape if value.ndim == 2 else (0, 0)
        converted[name] = value.T if rows != columns else value
    return converted


def _to_linear_reshaped(state):
    return {
        name: value.reshape(value.shape[::-1]) if value.ndim == 2 else value for name, value in state.items()
    }


def _conv1d_case(width, hidden, make="normal"):
    return lambda draw: {
        "state": {
            "attn.c_attn.weight": getattr(draw, make)(width, 3 * width),
            "attn.c_attn.bias": draw.normal(3 * width),
            "attn.c_proj.weight": getattr(draw, make)(width, width),
            "attn.c_proj.bias": draw.normal(width),
            "mlp.c_fc.weight": draw.normal(width, hidden),
            "mlp.c_fc.bias": draw.normal(hidden),
        }
    }


exercise = Fix(
    title="It loads, and babbles",
    minutes=8,
    dtype="float64",
    cases=[
        Case("width 3", _conv1d_case(3, 5)),
        Case("width 4", _conv1d_case(4, 16)),
        Case("not contiguous", _conv1d_case(2, 7, "transposed")),
        Case("hidden as wide as the stream", _conv1d_case(5, 5)),
        Case("width 1", _conv1d_case(1, 4), extreme=True),
    ],
    use=lambda answer, state: by_name(answer(state), state),
    oracle=lambda state: by_name(_to_linear(state), state),
    broken=_to_linear_as_found,
    memory="any",
    reference="nn.Linear",
    fault="square weights",
    menu={
        "square weights": "",
        "biases": "The biases are vectors; turning a vector changes nothing.",
        "names": "The names pass through as they are, and that is what the next step wants.",
        "copies": "A turned view is as good as a copy here: load_state_dict copies the numbers.",
    },
    mistakes=[
        Mistake(
            "reshaped",
            "reshape keeps the order in memory and only cuts it differently; the numbers land in wrong places. Turn: .T",
            _to_linear_reshaped,
        ),
        Mistake(
            "nothing turned",
            "No weight is turned now. Conv1D has (in, out), nn.Linear (out, in), whatever the shape.",
            lambda state: dict(state),
        ),
        Mistake(
            "only the square ones",
            "Now only the square weights are turned, and the others are left. All of them are stored as (in, out).",
            lambda state: {
                name: value.T if value.ndim == 2 and value.shape[0] == value.shape[1] else value
                for name, value in state.items()
            },
        ),
        Mistake(
            "biases lost",
            "The biases are missing from the result.",
            lambda state: {name: value.T for name, value in state.items() if value.ndim == 2},
        ),
    ],
    hints=(
        "Which weights does the function leave as they are? Try it on one that is as high as it is wide.",
        "A square weight has the same shape either way, so no error would ever tell. Every weight has to be turned.",
        'fault = "square weights"; converted[name] = value.T if value.ndim == 2 else value',
    ),
    passed="A shape that fits proves nothing. Compare outputs with a model that is known to be right.",
    excused={
        "delegation": "torch has no function for it: it is a convention",
        "equal axes": "the square weight is the point of this exercise",
        "distinct": "the square weight is the point of this exercise",
    },
)
