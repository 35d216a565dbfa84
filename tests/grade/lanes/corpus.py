"""Bad learner files, each made from a solved notebook by one small function, with the verdicts it must get.

Every exercise that is not named in `expect` must pass: a mistake in one never costs another.
"""

import copy
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from labkit.book import notebook
from labkit.book.notebook import Cell, Notebook, make_cell
from labkit.book.percent import parts
from labkit.verdict import RECORD_MIME

EXERCISES = ("w90.double", "w90.total", "w90.counter", "w90.guess", "w90.middle")
SQUARES = "def double(values):\n    return [value * value for value in values]"
DOUBLES = "def double(values):\n    return [2 * value for value in values]"
LEFT_BEHIND = 1_000_000 + 100 * os.getpid()  # nobody else sleeps so long, not even another run of this
PASSED = {"ex": "w90.double", "status": "pass", "headline": "", "lines": [], "mistake": None, "case": None}


@dataclass(frozen=True)
class Bad:
    """A kind of bad file. `says` is part of what the verdicts must say."""

    make: Callable[[Notebook], Notebook | str]
    expect: dict[str, str] = field(default_factory=dict)
    says: str = ""

    @property
    def name(self) -> str:
        return self.make.__name__

    def write(self, path: Path, solved: Notebook) -> None:
        made = self.make(copy.deepcopy(solved))
        path.write_text(made if isinstance(made, str) else json.dumps(made), encoding="utf-8")

    def expected(self) -> dict[str, str]:
        everywhere = self.expect.get("all", "pass")
        return {ex: self.expect.get(ex, everywhere) for ex in EXERCISES}


CORPUS: list[Bad] = []


def bad(says: str = "", **expect: str) -> Callable:
    """Put a function into the corpus: `@bad("SyntaxError", double="error")`."""

    def add(make: Callable[[Notebook], Notebook | str]) -> Callable:
        CORPUS.append(Bad(make, {k if k == "all" else f"w90.{k}": v for k, v in expect.items()}, says))
        return make

    return add


def cell(nb: Notebook, id: str) -> Cell:
    return next(cell for cell in nb["cells"] if cell["id"] == f"w90-{id}")


def answer(nb: Notebook, source: str, ex: str = "double") -> Notebook:
    """Write this text into an exercise's cell."""
    cell(nb, ex)["source"] = source
    return nb


def inside(statement: str) -> str:
    """A right answer to w90.double that first does something else."""
    return f"import os, sys\n\n\n{DOUBLES}".replace("\n    return", f"\n    {statement}\n    return")


# files that are fine


@bad()
def solved(nb):
    return nb


@bad(all="not started")
def untouched(nb):
    for one in nb["cells"]:
        one["source"] = parts(one["source"])[0]
    return nb


@bad()
def ordinary_notebook_life(nb):
    """Magics, display, top-level await, a helper in a cell of one's own."""
    lines = (
        "%matplotlib inline",
        "import asyncio",
        "await asyncio.sleep(0)",
        "display('here')",
        "TWO = 2",
        "!true",
    )
    source = "\n".join(lines)
    nb["cells"].insert(2, make_cell("code", source, "mine"))
    return answer(nb, "def double(values):\n    return [TWO * value for value in values]")


@bad()
def relative_path(nb):
    """Cells run in the notebook's own folder."""
    return answer(nb, f"assert open('relative_path.ipynb').read(1) == '{{'\n{DOUBLES}")


# wrong answers that must not be taken for right ones


@bad("squares", double="values")
def saved_wrong_output(nb):
    data = {"text/plain": "PASS", RECORD_MIME: PASSED}
    cell(nb, "double-check")["outputs"] = [{"output_type": "display_data", "data": data, "metadata": {}}]
    cell(nb, "double-check")["execution_count"] = 3
    return answer(nb, SQUARES)


@bad("nosuchmagic", double="error")
def unknown_magic(nb):
    return answer(nb, f"%nosuchmagic\n{DOUBLES}")


@bad("squares", double="values")
def silencing_tags(nb):
    for one in nb["cells"]:
        one["metadata"]["tags"] = ["raises-exception", "nbval-skip", "nbval-raises-exception"]
    return answer(nb, f"# NBVAL_SKIP\n# NBVAL_RAISES_EXCEPTION\n{SQUARES}")


@bad("squares", double="values")
def check_shadowed(nb):
    return answer(nb, f"check = lambda *args, **more: None\n{SQUARES}")


@bad("squares", double="values")
def check_redefined_in_labkit(nb):
    fake = "labkit.check = sys.modules['labkit.grade.judge.check'].check = lambda *args, **more: None"
    return answer(nb, f"import labkit, sys\n{fake}\n{SQUARES}")


@bad("squares", double="values")
def check_cell_edited(nb):
    cell(nb, "double-check")["source"] = "print('PASS')"
    return answer(nb, SQUARES)


@bad("squares", double="values")
def record_forged(nb):
    forge = f"display({{'{RECORD_MIME}': {PASSED!r}}}, raw=True)"
    source = f"{forge}\n\n\ndef double(values):\n    {forge}\n    return [value * value for value in values]"
    return answer(nb, source)


@bad("looks for the name `double`", double="error")
def answer_renamed(nb):
    return answer(nb, DOUBLES.replace("double", "twice"))


@bad("looks for the name `total`", double="values", total="error")
def answer_left_to_an_earlier_cell(nb):
    """`total` is bound by the cell of another exercise, and not by its own."""
    answer(nb, f"{SQUARES}\n\n\ndef total(values):\n    return 2 * sum(values)")
    return answer(nb, "pass", "total")


@bad("squares", double="values", guess="values", middle="values")
def three_wrong_answers(nb):
    answer(nb, SQUARES)
    answer(nb, "prediction = {'a': 3, 'b': 3}", "guess")
    return answer(nb, "def middle(values):\n    return min(values)\n\n\nfault = 'not sorted'", "middle")


@bad(double="not started", guess="not started", middle="not started")
def some_not_started(nb):
    answer(nb, "def double(values):\n    raise NotImplementedError('your code here')")
    answer(nb, "prediction = {'a': ..., 'b': ...}", "guess")
    return answer(nb, "def middle(values):\n    return values[len(values) // 2]\n\n\nfault = ...", "middle")


# code that hurts


@bad("ended the whole process", double="error")
def exits_the_process(nb):
    return answer(nb, inside("os._exit(0)"))


@bad("ended the whole process", double="error")
def exits_the_process_in_the_cell(nb):
    return answer(nb, f"import os\nos._exit(1)\n{DOUBLES}")


@bad("SystemExit", double="error", counter="error")
def leaves_with_sys_exit(nb):
    answer(nb, inside("sys.exit(1)"))
    return answer(nb, "import sys\nsys.exit()", "counter")


@bad()
def leaves_with_exit(nb):
    """In a notebook `exit()` asks the kernel to stop; the grader stays."""
    return answer(nb, f"{DOUBLES}\nexit()")


@bad("took more than", double="error")
def endless_loop(nb):
    return answer(nb, inside("while True: pass"))


@bad("took more than", counter="error")
def endless_loop_that_will_not_be_stopped(nb):
    source = "import time\nwhile True:\n    try:\n        time.sleep(1)\n    except BaseException: pass"
    return answer(nb, source, "counter")


@bad("RecursionError", double="error", counter="error")
def endless_recursion(nb):
    answer(nb, inside("double(values)"))
    return answer(nb, "def forever():\n    forever()\n\n\nforever()", "counter")


@bad("MemoryError", double="error", counter="error")
def allocates_50_gib(nb):
    answer(nb, inside("bytearray(50 * 2**30)"))
    return answer(nb, "import numpy\nnumpy.ones(50 * 2**27)", "counter")


@bad()
def prints_100_mb(nb):
    lines = "for _ in range(50_000): print('y' * 1000)"
    return answer(nb, f"print('x' * 50_000_000)\n{lines}\n{inside('print(len(values) * 1_000_000)')}")


@bad("SyntaxError", double="error")
def syntax_error(nb):
    return answer(nb, "def double(values)\n    return values")


@bad("the check was stopped before it came to an end", double="error")
def raises_keyboard_interrupt(nb):
    return answer(nb, inside("raise KeyboardInterrupt"))


@bad("does not run from a fresh start", double="error")
def asks_a_question(nb):
    return answer(nb, f"name = input('Who are you? ')\n{DOUBLES}")


@bad()
def stdout_gone(nb):
    return answer(nb, f"import sys\nsys.stdout = sys.stderr = None\n{DOUBLES}")


@bad("ValueError", double="error", counter="error")
def error_of_a_megabyte(nb):
    answer(nb, inside("raise ValueError('no ' * 400_000)"))
    return answer(nb, "raise ValueError('no ' * 400_000)", "counter")


# processes that outlive their cell. Each sleeps for a number of its own, by which a test finds it.


def sleeping(seconds: int, more: str = "") -> str:
    return f"import subprocess; subprocess.Popen(['sleep', '{seconds}']{more})"


@bad()
def leaves_a_child(nb):
    answer(nb, inside(sleeping(LEFT_BEHIND + 1)))
    return answer(nb, f"{sleeping(LEFT_BEHIND + 2)}\n{cell(nb, 'counter')['source']}", "counter")


@bad()
def leaves_a_child_in_its_own_session(nb):
    """It has the grader's output as its own: who waits for the end of that waits for the child."""
    answer(nb, inside(sleeping(LEFT_BEHIND + 3, ", start_new_session=True")))
    shell = f"import os\nos.system('sleep {LEFT_BEHIND + 4} &')"
    return answer(nb, f"{shell}\n{cell(nb, 'counter')['source']}", "counter")


@bad("ended the whole process", double="error")
def leaves_a_child_and_dies(nb):
    return answer(nb, inside(f"{sleeping(LEFT_BEHIND + 5, ', start_new_session=True')}; os._exit(1)"))


@bad("took more than", double="error")
def forks_and_loops(nb):
    """Both processes loop, and the second holds every pipe that the first had."""
    return answer(nb, inside(f"{sleeping(LEFT_BEHIND + 6)}; os.fork()\n    while True: pass"))


@bad("took more than", double="error")
def forks_a_daemon_and_loops(nb):
    """A grandchild in a session of its own, whose parent is gone."""
    daemon = f"os.setsid() or os.fork() or os.execvp('sleep', ['sleep', '{LEFT_BEHIND + 7}'])"
    return answer(nb, inside(f"if os.fork() == 0: {daemon}\n    while os.getpid(): pass"))


@bad()
def goes_on_twice(nb):
    """Two processes come to the end of the cell; one of them is graded."""
    return answer(nb, f"import os\nos.fork()\n{DOUBLES}")


@bad("ended the whole process", double="error", counter="error")
def kills_its_group(nb):
    answer(nb, inside("os.killpg(0, 9)"))
    return answer(nb, "import os\nos.kill(0, 9)", "counter")


@bad("an answer cannot end the process that grades it", double="error", counter="error")
def kills_its_parent(nb):
    answer(nb, inside("os.kill(os.getppid(), 9)"))
    return answer(nb, "import os\nos.killpg(os.getpgid(os.getppid()), 9)", "counter")


# the ground under the grader's feet


@bad("does not run from a fresh start", counter="error")
def builtins_broken(nb):
    """What an answer breaks when called is mended at once; IPython runs no cell without `isinstance`."""
    wreck = (
        "import builtins\nfor name in ('len', 'isinstance', 'next', 'print'): setattr(builtins, name, None)"
    )
    answer(
        nb, inside("import builtins; builtins.len = lambda x: 0; builtins.isinstance = builtins.next = None")
    )
    return answer(nb, f"{cell(nb, 'counter')['source']}\n{wreck}", "counter")


@bad()
def path_cleared(nb):
    answer(nb, inside("sys.path.clear()"))
    return answer(nb, f"{cell(nb, 'counter')['source']}\nimport sys\nsys.path.clear()", "counter")


@bad()
def labkit_removed(nb):
    """From what is imported, in an answer, in its cell and in a cell of one's own."""
    remove = "for name in [n for n in sys.modules if n.startswith('labkit')]: del sys.modules[name]"
    answer(nb, inside(remove))
    answer(nb, f"{cell(nb, 'counter')['source']}\nimport sys\n{remove}", "counter")
    place = nb["cells"].index(cell(nb, "guess"))
    nb["cells"].insert(place, make_cell("code", f"import sys\n{remove}", "mine"))
    return nb


@bad()
def everything_turned(nb):
    """What one answer turns, in its cell and when it is called, the next ones must not notice."""
    answer(nb, f"import os, sys\n\n\n{TURN}\n\n\n{inside('turn()')}\n\n\nturn()")
    for name in ("total", "counter", "middle"):
        answer(nb, f"{UNTURNED}\n{cell(nb, name)['source']}", name)
    return nb


TURN = """\
def turn():
    import locale, random, warnings, numpy
    os.chdir('/')
    os.environ.clear()
    os.environ['TURNED'] = '1'
    sys.path.append('/turned')
    sys.setrecursionlimit(4321)
    warnings.simplefilter('error')
    numpy.seterr(all='raise')
    random.seed(4)
    numpy.random.seed(4)"""
UNTURNED = """\
import os, sys, random, warnings, numpy
assert os.path.exists('everything_turned.ipynb')
assert 'TURNED' not in os.environ and 'PATH' in os.environ
assert '/turned' not in sys.path
assert sys.getrecursionlimit() != 4321
assert ('error', None, Warning, None, 0) not in warnings.filters
assert numpy.geterr()['divide'] == 'warn'
assert random.random() != random.Random(4).random()
assert numpy.random.rand() != numpy.random.RandomState(4).rand()"""


# limits that an exercise declares


@bad("took more than 4 s, the limit of this exercise, and was stopped", counter="error")
def longer_than_its_exercise_allows(nb):
    """`counter` has 10 s where others have 30, and the tests have 12 for 30."""
    source = cell(nb, "counter")["source"].replace("self.value = start", "self.value = start; time.sleep(60)")
    return answer(nb, f"import time\n\n\n{source}", "counter")


@bad("This exercise is to be done in 0.25 GiB", total="error", middle="pass")
def more_than_its_exercise_allows(nb):
    """`total` has 0.25 GiB; others may take more."""
    answer(nb, inside("numpy = __import__('numpy').empty(2**26)"))
    answer(
        nb,
        "import numpy\n\n\ndef total(values):\n    return 2 * sum(values) * len(numpy.empty(2**26)[:1])",
        "total",
    )
    return nb


# cells that moved


@bad(double="not started", counter="not started")
def cells_deleted(nb):
    gone = ("w90-setup", "w90-double", "w90-total-check", "w90-counter", "w90-counter-check")
    nb["cells"] = [one for one in nb["cells"] if one["id"] not in gone]
    return nb


@bad("squares", double="values")
def cell_duplicated(nb):
    """A copy carries the same metadata and another id. The last one above the check counts."""
    place = nb["cells"].index(cell(nb, "double")) + 1
    twin = copy.deepcopy(cell(nb, "double")) | {"id": "twin", "source": SQUARES}
    nb["cells"].insert(place, twin)
    return nb


@bad()
def cell_split(nb):
    """JupyterLab leaves the id on the last part, and the metadata on both."""
    helper = "def helper(values):\n    return double(values)"
    first = copy.deepcopy(cell(nb, "total")) | {"id": "first-part", "source": helper}
    answer(nb, "def total(values):\n    return sum(helper(values))", "total")
    nb["cells"].insert(nb["cells"].index(cell(nb, "total")), first)
    return nb


@bad()
def cells_merged(nb):
    """JupyterLab gives merged cells a new id and the metadata of the first."""
    group = [cell(nb, id) for id in ("double", "double-check", "total", "total-check")]
    group[0]["source"] = "\n\n".join(one["source"] for one in group)
    group[0]["id"] = "merged"
    nb["cells"] = [one for one in nb["cells"] if one not in group[1:]]
    return nb


@bad()
def cells_reordered(nb):
    nb["cells"].reverse()
    return nb


@bad()
def cells_retyped(nb):
    for id in ("double", "total-check", "setup"):
        one = cell(nb, id)
        one["cell_type"] = "markdown"
        del one["outputs"], one["execution_count"]
    return nb


@bad(double="not started")
def cell_cleared(nb):
    return answer(nb, "")


# files that are not what they were


@bad()
def old_format_without_ids(nb):
    for one in nb["cells"]:
        del one["id"]
    return nb | {"nbformat_minor": 4}


@bad("conflict markers", all="error")
def merge_conflict(nb):
    lines = notebook.dumps(nb).splitlines(keepends=True)
    ours, theirs = ["<<<<<<< HEAD\n", *lines[9:12]], ["=======\n", *lines[9:12], ">>>>>>> main\n"]
    return "".join([*lines[:9], *ours, *theirs, *lines[12:]])


@bad("ends in the middle", all="error")
def truncated(nb):
    text = notebook.dumps(nb)
    return text[: len(text) // 2]


@bad("empty", all="error")
def empty_file(nb):
    return ""


@bad("newer than this copy", all="error")
def newer_release(nb):
    nb["metadata"]["labkit"]["release"] = "99.1.0"
    return nb
