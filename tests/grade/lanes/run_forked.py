"""Grade notebooks in the warm lane and print the records: `run_forked.py LESSON.py NOTEBOOK...`.

A process of its own, because the fork server remembers the exercises it was started with.
"""

import json
import sys
from pathlib import Path

from labkit.book.work import here
from labkit.grade.lanes import fork
from labkit.grade.lanes.papers import paper


def main(source: Path, notebooks: list[Path]) -> None:
    work = here(source.parents[2])
    (lesson,) = [lesson for lesson in work.course.lessons if lesson.path.name == source.name]
    for path in notebooks:
        verdicts = fork.grade_paper(paper(work, lesson, shortcut=False, path=path))
        print(json.dumps([verdict.record() for verdict in verdicts.values()]), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]])
