"""The grader: compare, diagnose, say it well.

compare    yours against torch's: type, shape, dtype, values, in that order
run        one answer on one case: outputs, gradients, what it touched
rules      which operations an answer used, and whether it may
judge      the verdict ladder for each kind of exercise
verdict    what is said, as text, HTML and a record
check      what a notebook calls

papers     a lesson and a learner's file, put together into what is graded
steps      how a notebook is graded cell by cell, whatever runs the cells
kernel     run them in a Jupyter kernel, under nbval (`plugin`, `pytests`): `make check`
fork       run them in a fork of a warm process (`warm`, `preload`): `make watch`
report     the table, JSON and JUnit

answers    the solutions and stubs of the lesson sources, ready to be judged
mutants    small changes to a solution, each of which a check must notice
lint       is an exercise declared well: test data, hints, words
proof      everything that must hold for one exercise; `pool` runs thousands of them in forks: `make audit`
history    what a learner has done, from `events`: `make progress` (`page`), `make hint`, `make solution`
"""
