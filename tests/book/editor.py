"""A simulated learner: random edits, each doing to ids and metadata what JupyterLab 4.6 was seen to do.

VS Code ignores the locks, so a session may (`ignores_locks`). Every line that is typed is unique.
"""

import copy
import random

from labkit.book.notebook import digest, labkit_of, make_cell


class Learner:
    def __init__(self, nb: dict, seed: int, ignores_locks: bool = False, moves: bool = True):
        self.nb = copy.deepcopy(nb)
        self.random = random.Random(seed)
        self.ignores_locks = ignores_locks
        self.typed = 0
        self.answers: dict[str, list[str]] = {}  # cell id -> the lines of the answer
        self.actions = [self.type, self.answer, self.answer, self.copy, self.split, self.merge, self.retype]
        self.actions += [self.delete, self.add, self.run, *([self.cut] if moves else [])]

    @property
    def cells(self) -> list[dict]:
        return self.nb["cells"]

    def session(self, steps: int) -> dict:
        for _ in range(steps):
            self.random.choice(self.actions)()
        if self.random.random() < 0.15:
            self.save_as_4_4()
        return self.nb

    def new_id(self) -> str:
        return f"{self.random.getrandbits(32):08x}"

    def line(self) -> str:
        self.typed += 1
        return f"typed_{self.typed} = {self.typed}"

    def pick(self) -> int | None:
        """A cell that the editor lets the learner change."""
        free = [
            i
            for i, cell in enumerate(self.cells)
            if self.ignores_locks or cell["metadata"].get("editable", True)
        ]
        return self.random.choice(free) if free else None

    def type(self) -> None:
        if (i := self.pick()) is not None:
            lines = self.cells[i]["source"].split("\n")
            lines.insert(self.random.randint(0, len(lines)), self.line())
            self.cells[i]["source"] = "\n".join(lines)

    def answer(self) -> None:
        """Replace one stub by an answer of a few lines."""
        open_cells = [
            cell for cell in self.cells if "NotImplementedError" in cell["source"] or "..." in cell["source"]
        ]
        open_cells = [cell for cell in open_cells if labkit_of(cell).get("role") == "exercise"]
        if not open_cells:
            return
        cell = self.random.choice(open_cells)
        key, untouched = labkit_of(cell)["id"], digest(cell["source"]) == labkit_of(cell)["base"]
        out, written = list[str](), list[str]()
        for line in cell["source"].split("\n"):
            if "NotImplementedError" in line:
                indent = line[: len(line) - len(line.lstrip())]
                lines = [indent + self.line() for _ in range(self.random.randint(1, 4))]
                written += lines
                out += lines
            elif '": ...' in line:
                written.append(line.replace("...", str(self.random.randint(10, 10**9))))
                out.append(written[-1])
            else:
                out.append(line)
        cell["source"] = "\n".join(out)
        twice = key in self.answers or not untouched  # or with another exercise in the same cell
        self.answers[key] = [] if twice else written

    def copy(self) -> None:
        cell = copy.deepcopy(self.random.choice(self.cells))
        cell["id"] = self.new_id()
        self.cells.insert(self.random.randint(0, len(self.cells)), cell)

    def cut(self) -> None:
        cell = self.cells.pop(self.random.randrange(len(self.cells)))
        self.cells.insert(self.random.randint(0, len(self.cells)), cell)

    def split(self) -> None:
        """The last part keeps the id; both keep the metadata."""
        if (i := self.pick()) is None or "\n" not in self.cells[i]["source"]:
            return
        lines = self.cells[i]["source"].split("\n")
        at = self.random.randint(1, len(lines) - 1)
        first = copy.deepcopy(self.cells[i])
        first |= {"id": self.new_id(), "source": "\n".join(lines[:at]).strip("\n")}
        if "outputs" in first:
            first["outputs"] = []
        self.cells[i]["source"] = "\n".join(lines[at:]).strip("\n")
        self.cells.insert(i, first)

    def merge(self) -> None:
        """A new id; type and metadata of the first."""
        i = self.pick()
        if i is None or i + 1 >= len(self.cells):
            return
        second = self.cells[i + 1]
        if not self.ignores_locks and not second["metadata"].get("deletable", True):
            return
        gap = "\n\n" if self.cells[i]["cell_type"] == "markdown" else "\n"
        self.cells[i] |= {"id": self.new_id(), "source": self.cells[i]["source"] + gap + second["source"]}
        del self.cells[i + 1]

    def retype(self) -> None:
        cell = self.random.choice(self.cells)
        kind = self.random.choice(["code", "markdown", "raw"])
        self.cells[self.cells.index(cell)] = make_cell(kind, cell["source"], cell["id"], cell["metadata"])

    def delete(self) -> None:
        free = [c for c in self.cells if self.ignores_locks or c["metadata"].get("deletable", True)]
        if free and len(self.cells) > 1:
            self.cells.remove(self.random.choice(free))

    def add(self) -> None:
        cell = make_cell(self.random.choice(["code", "markdown"]), self.line(), self.new_id())
        self.cells.insert(self.random.randint(0, len(self.cells)), cell)

    def run(self) -> None:
        for number, cell in enumerate(self.cells):
            if cell["cell_type"] == "code":
                output = {"name": "stdout", "output_type": "stream", "text": "ran\n"}
                cell |= {"execution_count": number, "outputs": [output]}

    def save_as_4_4(self) -> None:
        self.nb["nbformat_minor"] = 4
        for cell in self.cells:
            del cell["id"]
