"""The command line: `python -m labkit check`, and every `make` target through it.

Each command is a function `main(argv)` in a module of its own, imported only when it is asked for.
"""

import errno
import importlib
import os
import subprocess
import sys

COMMANDS = {
    "lab": ("labkit.lab", "open the course in JupyterLab"),
    "check": ("labkit.grade.lanes.selfcheck", "grade your notebooks from scratch"),
    "watch": ("labkit.grade.lanes.watch", "grade a notebook each time it is saved"),
    "hint": ("labkit.grade.progress.hint", "the next hint for an exercise"),
    "solution": ("labkit.grade.progress.solution", "the solution of an exercise, after you passed it"),
    "reset": ("labkit.book.reset", "put an exercise back to its beginning; your text is backed up"),
    "progress": ("labkit.grade.progress.terminal", "what you have done, here and as a page"),
    "update": ("labkit.book.update", "merge a new release into your notebooks; backup first"),
    "doctor": ("labkit.doctor", "is everything installed and working?"),
    "build": ("labkit.book.build", "regenerate the notebooks from their sources"),
    "new": ("labkit.book.scaffold", "a new exercise: its file and its cells, to be filled in"),
    "import": ("labkit.book.importer", "bring an edited solution notebook back to its source"),
    "solutions": ("labkit.grade.lanes.run_solutions", "run every solution notebook, outputs compared"),
    "site": ("labkit.site", "the course as a website, for reading"),
    "audit": ("labkit.grade.audit.command", "prove the grader: every mistake is caught by name"),
    "test": ("labkit.gate", "everything that CI runs, or what one week needs"),
    "bench": ("labkit.bench", "measure labkit beside torch"),
    "stubs": ("labkit.stubs", "what editors read about labkit's names"),
    "lines": ("labkit.lines", "how large the package is, room by room"),
    "kernels": ("labkit.kernels.cuda.compiled", "compile the CUDA kernels, with or without a GPU"),
    "warm": ("labkit.warm", "compile the kernels once, so that no lesson waits for it"),
    "merge-driver": ("labkit.book.driver", "what git calls to merge notebooks"),
}
# What a learner types: the next of these finishes an update that was broken off.
FINISH = ("lab", "check", "watch", "hint", "solution", "reset", "progress", "update")


def main(argv: list[str] | None = None) -> int:
    argv = sys.argv[1:] if argv is None else argv
    if not argv or argv[0] in ("-h", "--help", "help"):
        return _usage()
    if argv[0] not in COMMANDS:
        print(f"labkit has no command {argv[0]!r}.\n", file=sys.stderr)
        return _usage() or 2
    try:
        if argv[0] in FINISH and _finished_another_labkit():
            return subprocess.call([sys.executable, "-m", "labkit", *argv])
        from labkit import doctor

        failures = doctor.quick() if argv[0] not in ("doctor", "merge-driver") else []
        if failures:
            print(*failures, sep="\n", file=sys.stderr)
            return 2
        return int(importlib.import_module(COMMANDS[argv[0]][0]).main(argv[1:]) or 0)
    except KeyboardInterrupt:
        print("\nStopped.", file=sys.stderr)
        return 130
    except BrokenPipeError:  # `labkit progress | head` has seen enough
        sys.stdout = open(os.devnull, "w")
        return 0
    except Exception as error:
        if os.environ.get("LABKIT_DEBUG"):
            raise
        print(_explain(error), file=sys.stderr)
        return 2


def _finished_another_labkit() -> bool:
    """Finish an update of which only the journal is left, and say so; True if it replaced labkit itself.

    Before anything else is imported: of a labkit that is half new, only what is needed here is sure to fit.
    """
    from labkit import paths

    if not (paths.root() / "backups" / "unfinished").exists():
        return False
    from labkit.book.changes import finish_unfinished

    return finish_unfinished(paths.root(), lambda words: print(words, file=sys.stderr, flush=True))


def _usage() -> int:
    print("python -m labkit COMMAND\n")
    for name, (_, words) in COMMANDS.items():
        print(f"  {name:13} {words}")
    return 0


def _explain(error: Exception) -> str:
    """What happened and what to do, without a stack trace."""
    what = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    if isinstance(error, OSError) and error.strerror:
        what = f"{error.strerror}: {error.filename}" if error.filename else f"{error.strerror}."
    what = "\n".join([what, *getattr(error, "__notes__", ())])
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return f"{what}\nMake room on the disk, then try again."
    if isinstance(error, ModuleNotFoundError):
        return f"{what}.\nThe environment is not complete. Run `make doctor`; it says what to install."
    if isinstance(error, PermissionError):
        return f"No permission: {error.filename}.\nMake the course folder writable, or move it home."
    return f"{what}\nRun with LABKIT_DEBUG=1 to see where this happened."


if __name__ == "__main__":
    sys.exit(main())
