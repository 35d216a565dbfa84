# Thin lines over `python -m labkit`; no logic here. Windows without make: see README.md.
PYTHON ?= python3
VENV := .venv
ifeq ($(OS),Windows_NT)
BIN := $(VENV)/Scripts
else
BIN := $(VENV)/bin
endif
LABKIT := $(BIN)/python -m labkit

.DEFAULT_GOAL := help
.PHONY: help lab check watch hint solution reset progress update doctor build new import solutions audit bench site lines test lint warm

help:            ## this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

# The environment, made once and again only when pyproject.toml changes.
$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable .
	$(LABKIT) doctor --quick
	@touch $@

# What an extra of pyproject.toml adds: .installed-test, .installed-site.
$(VENV)/.installed-%: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --editable '.[$*]'
	@touch $@

lab: $(VENV)/.installed       ## open the course in JupyterLab (PORT=8888, NO_BROWSER=1)
	@$(LABKIT) lab $(if $(PORT),--port $(PORT)) $(if $(NO_BROWSER),--no-browser)

check: $(VENV)/.installed     ## grade your notebooks (WEEK=3, EX=w03.adamw, STRICT=1)
	@$(LABKIT) check $(if $(WEEK),--week $(WEEK)) $(if $(EX),--ex $(EX)) $(if $(STRICT),--strict)

watch: $(VENV)/.installed     ## grade a notebook each time it is saved (WEEK=3)
	@$(LABKIT) watch $(if $(WEEK),--week $(WEEK))

hint: $(VENV)/.installed      ## the next hint (EX=w02.unbroadcast)
	@$(LABKIT) hint $(EX)

solution: $(VENV)/.installed  ## the solution, after you passed (EX=…, INSIST=1)
	@$(LABKIT) solution $(EX) $(if $(INSIST),--insist)

reset: $(VENV)/.installed     ## put an exercise back to its beginning (EX=…)
	@$(LABKIT) reset $(EX)

progress: $(VENV)/.installed  ## what you have done
	@$(LABKIT) progress

update: $(VENV)/.installed    ## merge a new release into your notebooks, backup first
	@$(LABKIT) update

doctor: $(VENV)/.installed    ## is everything installed and working?
	@$(LABKIT) doctor

warm: $(VENV)/.installed      ## compile the kernels once
	@$(LABKIT) warm

build: $(VENV)/.installed     ## authors: regenerate the notebooks (WEEK=2)
	@$(LABKIT) stubs
	@$(LABKIT) build $(if $(WEEK),--week $(WEEK))

new: $(VENV)/.installed       ## authors: a new exercise to be filled in (EX=w08.guard, LESSON=week08_kernels/02_cuda)
	@$(LABKIT) new $(EX) $(if $(LESSON),--lesson $(LESSON))

import: $(VENV)/.installed    ## authors: bring an edited solution notebook back (FILE=solutions/…)
	@$(LABKIT) import $(FILE)

solutions: $(VENV)/.installed ## instructors: run every solution notebook (WEEK=2)
	@$(LABKIT) solutions $(if $(WEEK),--week $(WEEK))

audit: $(VENV)/.installed     ## authors: prove the grader (WEEK=2, EX=…)
	@$(LABKIT) audit $(if $(WEEK),--week $(WEEK)) $(if $(EX),--ex $(EX))

bench: $(VENV)/.installed     ## measure labkit beside torch (COMPILE=1: and torch.compile)
	@$(LABKIT) bench $(if $(COMPILE),--compile)

site: $(VENV)/.installed-site ## the course as a website in site/ (SOLUTIONS=1)
	@$(LABKIT) site $(if $(SOLUTIONS),--solutions)

lines: $(VENV)/.installed     ## authors: how large each part of labkit is
	@$(LABKIT) lines

lint: $(VENV)/.installed-test ## authors: ruff, mypy, and the order of the rooms
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

test: lint                    ## everything that CI runs (WEEK=8: what an author of that week needs)
	@$(LABKIT) test $(if $(WEEK),--week $(WEEK))
