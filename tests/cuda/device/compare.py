"""The same function on the device and on the CPU's plain kernels: values and gradients are compared."""

import numpy as np

import labkit


def make(seed, *shape, low=None):
    """Normal numbers; with `low`, uniform from `low` to low + 2."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal(shape) if low is None else rng.random(shape) * 2 + low


def run(function, arrays, device, dtype, view):
    """The value of the function and its gradients in every float input, as NumPy arrays."""
    leaves, inputs = [], []
    for a in arrays:
        t = labkit.tensor(a, dtype=dtype if a.dtype.kind == "f" else None, device=device)
        leaves.append(t.requires_grad_() if a.dtype.kind == "f" else t)
        inputs.append(view(t))
    y = function(*inputs)
    assert y.device == device
    if y.requires_grad:
        g = np.random.default_rng(9).standard_normal(y.shape)
        y.backward(labkit.tensor(g, dtype=y.dtype, device=device))
    grads = [t.grad for t in leaves]
    assert all(g is None or g.device == device for g in grads)
    return [None if t is None else t.numpy(force=True) for t in (y, *grads)]


def same_as_cpu(function, *arrays, dtype=labkit.float32, tolerance=2e-5, view=lambda t: t):
    """Check that values and gradients on the device are those of the CPU."""
    arrays = [np.asarray(a) for a in arrays]
    found = run(function, arrays, "cuda", dtype, view)
    with labkit.use_kernels("numpy"), np.errstate(all="ignore"):
        expected = run(function, arrays, "cpu", dtype, view)
    for mine, theirs in zip(found, expected, strict=True):
        assert (mine is None) == (theirs is None)
        if mine is not None:
            assert mine.shape == theirs.shape and mine.dtype == theirs.dtype
            scale = np.abs(theirs[np.isfinite(theirs)]).max(initial=1) if theirs.dtype.kind == "f" else 1
            np.testing.assert_allclose(mine, theirs, rtol=tolerance, atol=tolerance * scale)
