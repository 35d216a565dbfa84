"""Activations: one kernel for the value, one for the slope times the incoming gradient."""

from labkit.autograd import op


@op(method=True, in_place=True, functional="inplace")
def relu(k, x):
    """max(x, 0)."""
    y = k.relu(x)
    return y, lambda g: k.relu_grad(g, y)


@op(functional=True)
def gelu(k, x, *, approximate="none"):
    """x Phi(x), Phi the normal distribution function; "tanh" uses its well-known approximation."""
    if approximate not in ("none", "tanh"):
        raise ValueError(f"gelu(): approximate must be 'none' or 'tanh', not {approximate!r}")
    return k.gelu(x, approximate), lambda g: k.gelu_grad(g, x, approximate)


@op(functional="inplace")
def silu(k, x):
    """x sigmoid(x), also called swish."""
    return k.silu(x), lambda g: k.silu_grad(g, x)


@op(functional="inplace")
def leaky_relu(k, x, *, negative_slope=0.01):
    """x where positive, negative_slope x elsewhere."""
    return k.leaky_relu(x, negative_slope), lambda g: k.leaky_relu_grad(g, x, negative_slope)


@op(functional="inplace")
def elu(k, x, *, alpha=1.0):
    """x where positive, alpha (exp(x) - 1) elsewhere."""
    return k.elu(x, alpha), lambda g: k.elu_grad(g, x, alpha)


@op(functional=True)
def softplus(k, x, *, beta=1.0, threshold=20.0):
    """log(1 + exp(beta x)) / beta, and x itself where beta x exceeds the threshold."""
    return k.softplus(x, beta, threshold), lambda g: k.softplus_grad(g, x, beta, threshold)


@op(functional=True)
def logsigmoid(k, x):
    """log(sigmoid(x)), without overflow."""
    return k.logsigmoid(x), lambda g: k.logsigmoid_grad(g, x)
