"""A function that standardizes its input in place by way of a view: name the fault and mend it."""

from labkit.exercises.declare import Case, Fix, Mistake


def _standardize_in_place(x):
    z = x[:]
    z -= z.mean(dim=0)
    z /= z.std(dim=0)
    return z


exercise = Fix(
    title="The data that changed overnight",
    minutes=8,
    needs=("w01.share",),
    cases=[
        Case("5 by 2", lambda draw: {"x": draw.normal(5, 2)}),
        Case("3 by 4", lambda draw: {"x": draw.normal(3, 4)}),
        Case("transposed", lambda draw: {"x": draw.transposed(4, 3)}),
        Case("one column", lambda draw: {"x": draw.normal(6, 1)}),
        Case("large values", lambda draw: {"x": 1e4 * draw.normal(7, 2)}, extreme=True),
    ],
    oracle=lambda x: (x - x.mean(dim=0)) / x.std(dim=0),
    broken=_standardize_in_place,
    fault="x[:] is a view",
    menu={
        "x[:] is a view": "",
        "wrong axis": "dim=0 runs down each column, and that is what is asked for: the result is right.",
        "mean after std": "The order does not matter: shifting a column leaves its deviation as it is.",
    },
    mistakes=[
        Mistake(
            "contiguous for a copy",
            "`x.contiguous()` returns x itself if x is contiguous already, so the writes still reach it. `x.clone()` copies.",
            lambda x: _standardize_in_place(x.contiguous()),
        ),
        Mistake(
            "cloned too late",
            "The result is a copy, but x was written to before it was made: clone first, then write.",
            lambda x: _standardize_in_place(x).clone(),
        ),
        Mistake(
            "divided by n",
            "The deviation is now the one that divides by n; torch's `std` divides by n - 1 unless told otherwise.",
            lambda x: (x - x.mean(dim=0)) / x.std(dim=0, correction=0),
        ),
        Mistake(
            "not divided",
            "The mean is gone; the division by the deviation is missing now.",
            lambda x: x - x.mean(dim=0),
        ),
        Mistake(
            "one deviation for all",
            "All columns are divided by the same number: `std` needs dim=0 as well.",
            lambda x: (x - x.mean(dim=0)) / x.std(),
        ),
        Mistake(
            "one mean for all",
            "Mean and deviation are those of the whole table: each column has its own, dim=0.",
            lambda x: (x - x.mean()) / x.std(),
        ),
    ],
    hints=(
        "Which line makes the copy that the comment promises? Ask it: `z.data_ptr() == x.data_ptr()`.",
        "`x[:]` is a view, so `z -= ...` writes to x. Either copy with `x.clone()`, or write `z = x - ...` without in-place operators.",
        'fault = "x[:] is a view"; z = x - x.mean(dim=0); return z / z.std(dim=0)',
    ),
    passed="A function that writes to its argument announces it in torch with a name that ends in `_`, such as `x.add_`.",
    excused={"delegation": "torch has no function for it; any arithmetic that leaves x alone will do"},
)
