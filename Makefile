# What README and CI call. `make serve` and `make test` need nothing but Python 3.11 to 3.13 and make.
PYTHON ?= python3
VENV ?= .venv
PORT ?= 8000
HOST ?= 127.0.0.1
MODEL ?=
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help setup serve test check format journey results

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup:  ## make .venv and install (TORCH_INDEX=, ENGINE=cpu|cuda, PYTHON=)
	@PYTHON=$(PYTHON) VENV=$(VENV) ./scripts/setup.sh

serve: setup  ## serve on http://127.0.0.1:8000 (PORT=, HOST=, MODEL=, ARGS="--pipeline workers")
	@exec $(VENV)/bin/dragoman serve --host $(HOST) --port $(PORT) $(if $(MODEL),--model "$(MODEL)") $(ARGS)

check: setup  ## ruff and pyright
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/pyright --project pyproject.toml

test: check  ## everything that CI runs, real engine included
	$(VENV)/bin/pytest

format: setup  ## let ruff rewrite
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .

journey: setup  ## the whole story on this machine (ARGS=--quick: under 10 minutes on 2 cores)
	@exec $(VENV)/bin/dragoman journey $(ARGS)

results: setup  ## docs/results.md from results/
	$(VENV)/bin/python benchmarks/results_page.py
