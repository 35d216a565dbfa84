"""Run a learner's notebook cell by cell and collect its verdicts.

papers        a lesson and a learner's file, put together into what is graded
steps         how a paper is graded, cell by cell, whatever runs the cells
first_cell    what a process that grades does first
kernel        run the cells in a Jupyter kernel; under nbval: `nbval_graded`, started by `nbval_run`
fork          run them in a fork of a warm process; `child` is its other end, `preload` what is warm
report        the table, JSON and JUnit
selfcheck     `make check`      watch           `make watch`
run_solutions `make solutions`: the solution notebooks under strict nbval (`nbval_strict`)
"""
