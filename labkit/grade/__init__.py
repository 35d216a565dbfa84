"""The grader, in four rooms; each imports only what stands above it.

judge      compare, diagnose, say it: the verdict on an answer, one module per kind of exercise in `kinds`
lanes      run a notebook cell by cell: in a kernel (`make check`), in a fork (`make watch`, the panel)
audit      prove the judge: every mistake by name, every mutant caught (`make audit`)
progress   what a learner has done, and what comes next (`make progress`, `make hint`, `make solution`)

`processes` runs tasks in forks with limits, for lanes and audit alike.
"""
