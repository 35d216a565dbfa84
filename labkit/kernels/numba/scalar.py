"""exp, tanh, sigmoid and erf of one float32, written so that a loop over them becomes eight at a time.

Calls into the C library do not vectorize; arithmetic does. Branches become selects (`a if c else b` with
both sides computed), and every constant is a float32 so that nothing is widened. The polynomials are
minimax fits; each function is within a few units in the last place of the true value, passes NaN on, and is
right at plus and minus infinity.
"""

import numpy as np

from labkit.kernels.numba.jit import scalar

F = np.float32  # constants in the code below: F(1), F(0.5)
ONE, TWO, HALF, ZERO, INF = F(1), F(2), F(0.5), F(0), F(np.inf)

_LOG2E, _LN2_HIGH, _LN2_LOW = F(1.44269504), F(0.693359375), F(-2.12194440e-4)
_E0, _E1, _E2, _E3, _E4 = F(0.500000003), F(0.166665734), F(0.0416663636), F(0.00836376929), F(0.00139421491)
_EXP_LOW, _EXP_HIGH = F(-87.3), F(88.72283)  # below, the result is (nearly) denormal: 0; above, it is inf


@scalar
def exp(x):
    """e^x = 2^n e^r with n an integer and |r| <= ln(2) / 2; 2^n is n written into the exponent bits."""
    y = _EXP_LOW if x < _EXP_LOW else x
    y = _EXP_HIGH if y > _EXP_HIGH else y
    n = np.floor(y * _LOG2E + HALF)
    r = y - n * _LN2_HIGH - n * _LN2_LOW
    p = ONE + r + r * r * (_E0 + r * (_E1 + r * (_E2 + r * (_E3 + r * _E4))))
    # 2^n in two factors: n = 128 alone would not fit the exponent.
    p = p * np.int32((np.int32(n) + np.int32(126)) << np.int32(23)).view(np.float32) * TWO
    p = ZERO if x < _EXP_LOW else p
    return INF if x > _EXP_HIGH else p


@scalar
def sigmoid(x):
    """1 / (1 + e^-x)"""
    return ONE / (ONE + exp(-x))


_T0, _T1, _T2, _T3, _T4 = F(-0.333333296), F(0.133328056), F(-0.0538550986), F(0.021013613), F(-0.00611722652)


@scalar
def tanh(x):
    """x + x^3 P(x^2) near 0, where 1 - 2 / (e^2x + 1) would cancel; that formula elsewhere."""
    s = x * x
    small = x + x * s * (_T0 + s * (_T1 + s * (_T2 + s * (_T3 + s * _T4))))
    large = ONE - TWO / (exp(TWO * x) + ONE)
    return small if abs(x) < F(0.625) else large


_S0, _S1, _S2, _S3 = F(1.12837917), F(-0.376126271), F(0.112836002), F(-0.0268544446)
_S4, _S5, _S6 = F(0.00518953534), F(-0.000802084127), F(7.88911952e-05)
_L0, _L1, _L2, _L3 = F(-0.000188040223), F(1.12957842), F(0.633219893), F(0.108418577)
_L4, _L5, _L6, _L7 = F(-0.0252082567), F(0.00420456187), F(-0.000441336376), F(2.16868499e-05)


@scalar
def erf(x):
    """x P(x^2) up to 1; beyond, erfc(t) = e^-Q(t) falls so fast that a fit of its logarithm is enough."""
    s = x * x
    small = x * (_S0 + s * (_S1 + s * (_S2 + s * (_S3 + s * (_S4 + s * (_S5 + s * _S6))))))
    t = abs(x)
    t = F(4) if t > F(4) else t  # erf(4) rounds to 1
    q = _L0 + t * (_L1 + t * (_L2 + t * (_L3 + t * (_L4 + t * (_L5 + t * (_L6 + t * _L7))))))
    large = ONE - exp(-q)
    large = -large if x < ZERO else large
    return small if s < ONE else large


@scalar
def order(x):
    """An int32 that orders like the float32 x. A maximum of integers vectorizes; one of floats does not,
    because of NaN. `order(NaN)` is above or below all others; NaN shows up in the sum that follows anyway.
    """
    bits = np.float32(x).view(np.int32)
    return bits ^ ((bits >> np.int32(31)) & np.int32(0x7FFFFFFF))


@scalar
def unorder(i):
    """The float32 that `order` came from."""
    return np.int32(i ^ ((i >> np.int32(31)) & np.int32(0x7FFFFFFF))).view(np.float32)
