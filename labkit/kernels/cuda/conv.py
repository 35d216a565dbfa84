"""Convolution in two ways: as a matrix product over windows ("im2col"), and directly.

`unfold` writes every window of the padded input as a column. Then the forward pass is w @ columns, the weight
gradient g @ columns.T, and the input gradient w.T @ g, added back by `fold` where each window came from. The
product is fast, but the columns take KH * KW times the memory of the input, written once and read again.

`_conv2d_direct` reads the input itself, through a patch in shared memory. It pays where a group has fewer
filters than a tile of the product has rows: there most threads of the product would idle, while the columns
cost as much as ever. First layers and depthwise convolutions are such; wide layers take the product.
Pairs are (height, width). A weight holds F filters: (F, C/G, KH, KW).
"""

from labkit.kernels.cuda.elementwise import add
from labkit.kernels.cuda.launch import THREADS, blocks_for, cuda, kernel
from labkit.kernels.cuda.linear import TILE, matmul
from labkit.kernels.cuda.memory import empty, full
from labkit.kernels.cuda.reduce import sum
from labkit.kernels.cuda.shape import flip

SPAN = 3 * TILE  # rows and columns of the patch; 48 puts the two rows that a warp reads into different banks


@kernel("F4 F4 F1 i i i i i i F4")
def _conv2d_direct(x, w, b, sh, sw, ph, pw, dh, dw, out):
    """Thread (ty, tx) owns out[n, f, oh, ow]; a block owns TILE x TILE of these, for one filter at a time.

    Shared: what all its windows cover of one channel, high x wide: the tile and its halo, 0 beyond the edge.
    A 3 x 3 filter reads (TILE + 2)^2 elements per channel for TILE^2 outputs, 1.3 each instead of 9.
    Weights are the same for all threads at a time: one read serves the warp.
    """
    patch = cuda.shared.array((SPAN, SPAN), x.dtype)
    T = x.dtype.type
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    F, C, KH, KW = w.shape
    oh, ow = cuda.blockIdx.y * TILE + ty, cuda.blockIdx.x * TILE + tx
    top, left = cuda.blockIdx.y * TILE * sh - ph, cuda.blockIdx.x * TILE * sw - pw
    high, wide = (TILE - 1) * sh + (KH - 1) * dh + 1, (TILE - 1) * sw + (KW - 1) * dw + 1
    for nf in range(cuda.blockIdx.z, out.shape[0] * F, cuda.gridDim.z):
        n, f = nf // F, nf % F
        first = f // (F * C // x.shape[1]) * C  # the channels that this filter's group sees start here
        total = b[f]
        for c in range(C):
            for r in range(ty, high, TILE):
                for s in range(tx, wide, TILE):
                    y, z = top + r, left + s
                    inside = 0 <= y and y < x.shape[2] and 0 <= z and z < x.shape[3]
                    patch[r, s] = x[n, first + c, y, z] if inside else T(0)
            cuda.syncthreads()
            for kh in range(KH):
                for kw in range(KW):
                    total += w[f, c, kh, kw] * patch[ty * sh + kh * dh, tx * sw + kw * dw]
            cuda.syncthreads()  # all have read the patch before the next channel replaces it
        if oh < out.shape[2] and ow < out.shape[3]:
            out[n, f, oh, ow] = total


@kernel("F4 i i i i i i i i i i F3")
def _unfold(x, KH, KW, sh, sw, ph, pw, dh, dw, OH, OW, out):
    """Thread i owns one element of a column: out[n, (c, kh, kw), (oh, ow)], 0 where the window hangs over.

    Neighbors are neighboring windows at one tap: they write side by side, and read side by side at stride 1.
    Every input is read once per window that covers it (KH * KW / stride^2 times); every output written once.
    """
    i = cuda.grid(1)
    if i < out.size:
        place = i % out.shape[2]
        row = i // out.shape[2] % out.shape[1]
        n = i // out.shape[2] // out.shape[1]
        y = place // OW * sh - ph + row // KW % KH * dh
        z = place % OW * sw - pw + row % KW * dw
        inside = 0 <= y and y < x.shape[2] and 0 <= z and z < x.shape[3]
        out[n, row, place] = x[n, row // KW // KH, y, z] if inside else x.dtype.type(0)


@kernel("F3 i i i i i i i i i i F4")
def _fold(columns, KH, KW, sh, sw, ph, pw, dh, dw, OH, OW, out):
    """Thread i owns pixel out[n, c, y, z] and collects it from every window that covers it.

    The other way around, a thread per window adding to its pixels, would need atomic additions. Reads KH * KW
    elements at most, writes one; the order of the sum is fixed.
    """
    i = cuda.grid(1)
    if i < out.size:
        z = i % out.shape[3]
        y = i // out.shape[3] % out.shape[2]
        c = i // out.shape[3] // out.shape[2] % out.shape[1]
        n = i // out.shape[3] // out.shape[2] // out.shape[1]
        total = out.dtype.type(0)
        for kh in range(KH):
            for kw in range(KW):
                top, left = y + ph - kh * dh, z + pw - kw * dw  # where the window starts, times the stride
                if top >= 0 and left >= 0 and top % sh == 0 and left % sw == 0:
                    if top // sh < OH and left // sw < OW:
                        total += columns[n, (c * KH + kh) * KW + kw, top // sh * OW + left // sw]
        out[n, c, y, z] = total


def _counts(shape, size, stride, padding, dilation):  # how many windows fit: (OH, OW)
    sizes = zip(shape, size, stride, padding, dilation, strict=True)
    return tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in sizes)


def _columns(x, size, window, counts):  # the first (OH, OW) windows: -> (N, C * KH * KW, OH * OW)
    out = empty((x.shape[0], x.shape[1] * size[0] * size[1], counts[0] * counts[1]), x.dtype)
    _unfold(blocks_for(out.size), THREADS, x, *size, *(n for pair in window for n in pair), *counts, out)
    return out


def _pixels(columns, out, size, window, counts):  # the reverse: -> (N, C, H, W)
    x = empty((columns.shape[0], columns.shape[1] // (size[0] * size[1]), *out), columns.dtype)
    _fold(blocks_for(x.size), THREADS, columns, *size, *(n for pair in window for n in pair), *counts, x)
    return x


def unfold(x, size, stride, padding, dilation):  # (N, C, H, W) -> (N, C * KH * KW, OH * OW)
    window = stride, padding, dilation
    return _columns(x, size, window, _counts(x.shape[2:], size, *window))


def fold(x, out, size, stride, padding, dilation):  # (N, C * KH * KW, OH * OW) -> (N, C, H, W)
    window = stride, padding, dilation
    return _pixels(x, out, size, window, _counts(out, size, *window))


def _in_groups(a, groups):  # (N, G * R, L) -> (N, G, R, L)
    return a.reshape(a.shape[0], groups, a.shape[1] // groups, a.shape[2])


def _is_direct(filters, groups, size, stride, dilation):
    """Has a group fewer filters than a tile of the product has rows, and the patch room for its windows?"""
    reach = [(TILE - 1) * s + (k - 1) * d + 1 for s, k, d in zip(stride, size, dilation, strict=True)]
    return filters // groups < TILE and max(reach) <= SPAN


def _direct(x, w, b, stride, padding, dilation, counts):  # -> (N, F, OH, OW)
    y = empty((x.shape[0], w.shape[0], *counts), x.dtype)
    b = full((), 0, x.dtype).broadcast_to((w.shape[0],)) if b is None else b
    grid = blocks_for(counts[1], TILE), blocks_for(counts[0], TILE), min(y.shape[0] * y.shape[1], 65535)
    _conv2d_direct(grid, (TILE, TILE), x, w, b, *stride, *padding, *dilation, y)
    return y


def conv2d(x, w, b, stride, padding, dilation, groups):  # (N, C, H, W) -> (N, F, OH, OW)
    F, size, window = w.shape[0], w.shape[2:], (stride, padding, dilation)
    counts = _counts(x.shape[2:], size, *window)
    if _is_direct(F, groups, size, stride, dilation):
        return _direct(x, w, b, *window, counts)
    columns = _in_groups(_columns(x, size, window, counts), groups)
    y = matmul(w.reshape(groups, F // groups, columns.shape[2]), columns)  # (N, G, F/G, L)
    y = y.reshape(x.shape[0], F, *counts)
    return y if b is None else add(y, b.reshape(F, 1, 1))


def conv2d_grad_input(g, w, shape, stride, padding, dilation, groups):  # (N, F, OH, OW) -> (N, C, H, W)
    N, F, OH, OW = g.shape
    _, C, KH, KW = w.shape
    margin = tuple(d * (k - 1) - p for d, k, p in zip(dilation, (KH, KW), padding, strict=True))
    few = _is_direct(C * groups, groups, (KH, KW), stride, dilation)
    if few and stride == (1, 1) and min(margin) >= 0:  # a convolution of g with the filters turned around
        turned = w.reshape(groups, F // groups, C, KH, KW).swapaxes(1, 2).reshape(groups * C, -1, KH, KW)
        return _direct(g, flip(turned, (2, 3)), None, stride, margin, dilation, shape[2:])
    filters = w.reshape(groups, F // groups, C * KH * KW)
    columns = matmul(filters.swapaxes(1, 2), _in_groups(g.reshape(N, F, OH * OW), groups))
    rows = columns.reshape(N, groups * columns.shape[2], OH * OW)
    return _pixels(rows, shape[2:], (KH, KW), (stride, padding, dilation), (OH, OW))


def conv2d_grad_weight(g, x, shape, stride, padding, dilation, groups):  # -> (F, C/G, KH, KW)
    N, F, OH, OW = g.shape
    columns = _columns(x, shape[2:], (stride, padding, dilation), (OH, OW))
    rows = _in_groups(g.reshape(N, F, OH * OW), groups)
    gw = matmul(rows, _in_groups(columns, groups).swapaxes(2, 3))  # (N, G, F/G, C/G * KH * KW)
    return sum(gw, (0,), False).reshape(shape)


def conv2d_grad_bias(g):  # (N, F, OH, OW) -> (F,)
    return sum(g, (0, 2, 3), False)
