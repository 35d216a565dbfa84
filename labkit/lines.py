"""`make lines`: how large the package is, room by room, and how much of it is code.

A line of code holds something other than a comment or a docstring. The engine is what `import labkit` gives:
tensors, autograd, ops and their kernels for the CPU; `nn`, `optim` and `data` stand on it.
"""

import argparse
import ast
import io
import tokenize
from collections import Counter
from pathlib import Path

from labkit.text import ruled

PACKAGE = Path(__file__).parent
CORE = (
    "autograd backends creation dtypes engine errors grad_mode gradcheck lazy op_table plugging printing "
    "random serialization tensor"
)
ROOMS = {  # heading -> rooms: folders, or files of the package
    "engine": {
        "tensor, autograd": [f"{name}.py" for name in CORE.split()],
        "ops": ["ops"],
        "kernels/numpy": ["kernels/numpy"],
        "kernels/numba": ["kernels/numba"],
    },
    "on top of it": {"nn": ["nn"], "optim": ["optim"], "data": ["data"], "ranks": ["ranks"]},
    "GPU": {"kernels/cuda": ["kernels/cuda", "cuda.py"], "simt": ["simt"]},
    "course": {
        "exercises": ["exercises"],
        "grade": ["grade"],
        "book": ["book"],
        "viz": ["viz"],
        "panel": ["panel"],
        "site": ["site"],
        "bench": ["bench"],
    },
}
_NOT_CODE = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENCODING, tokenize.ENDMARKER),
}


def count(source: str) -> Counter[str]:
    """Lines of one file: in all, of code, of comments and docstrings alone."""
    lines = source.splitlines()
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(getattr(first.value, "value", None), str):
                docstrings.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NOT_CODE:
            code.update(range(token.start[0], token.end[0] + 1))
    code -= docstrings
    filled = {number for number, line in enumerate(lines, 1) if line.strip()}
    return Counter(files=1, lines=len(lines), code=len(code & filled), prose=len(filled - code))


def total(places: list[str]) -> Counter[str]:
    """The sum over folders and files of the package."""
    sums: Counter[str] = Counter()
    for place in places:
        path = PACKAGE / place
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            sums += count(file.read_text(encoding="utf-8"))
    return sums


def main(argv: list[str]) -> int:
    """Print the table: every room, a sum per heading, and the whole package."""
    argparse.ArgumentParser(prog="python -m labkit lines", description="Count the lines.").parse_args(argv)
    rows: list[list[str]] = []

    def row(name: str, sums: Counter[str]) -> None:
        rows.append([name, *(f"{sums[column]:,}" for column in ("files", "lines", "code", "prose"))])

    for heading, rooms in ROOMS.items():
        sums = {room: total(places) for room, places in rooms.items()}
        for room, found in sums.items():
            row(room, found)
        row(f"= {heading}", sum(sums.values(), Counter()))
    row("= all of labkit", total(["."]))
    print(ruled(["room", "files", "lines", "code", "prose"], rows))
    return 0
