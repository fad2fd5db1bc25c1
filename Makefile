# What README and CI call. `make serve` and `make test` need nothing but Python 3.11 to 3.13 and make.
PYTHON ?= python3
VENV ?= .venv
PORT ?= 8000
HOST ?= 127.0.0.1
MODEL ?=
ARGS ?=
BEFORE ?= afd6a7f
PROCESSES ?= 2
# Tests start dozens of Python processes: compiled modules are kept, also where the environment says otherwise.
PYTEST = env -u PYTHONDONTWRITEBYTECODE $(VENV)/bin/pytest

.DEFAULT_GOAL := help
.PHONY: help setup serve style types test tests acceptance coverage wholetext clients check structure format journey chaos results sbom

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: export COMPILE ?= $(if $(filter setup,$(MAKECMDGOALS)),yes,no)
setup:  ## make .venv and install (TORCH_INDEX=, ENGINE=cpu|cuda, PYTHON=)
	@PYTHON=$(PYTHON) VENV=$(VENV) ./scripts/setup.sh

# Where the environment says otherwise, too, modules are compiled once: without that vLLM's take twice as long to import.
# The packaged model is for trials, and compiling it takes longer than everything else of a first start: it is not compiled.
serve: setup  ## serve on http://127.0.0.1:8000 (PORT=, HOST=, MODEL=, ARGS="--enforce-eager false")
	@exec env -u PYTHONDONTWRITEBYTECODE $(VENV)/bin/dragoman serve --host $(HOST) --port $(PORT) \
		$(if $(MODEL),--model "$(MODEL)",--enforce-eager true) $(ARGS)

check: style types  ## ruff and pyright

style: setup
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

types: setup
	nice $(VENV)/bin/pyright --project pyproject.toml --threads $(PROCESSES)

structure: setup  ## files and lines of each package, before and now (BEFORE=a git revision)
	@$(VENV)/bin/python scripts/structure.py --before $(BEFORE)

# pyright takes what the tests leave: they wait for processes, browsers and the engine's start.
test: style  ## check, and the tests, real engine included, in PROCESSES=2; 12 minutes on 2 cores
	@$(MAKE) --no-print-directory --jobs=2 types tests

# One process more than the cores: tests wait for other processes half of the time.
tests: setup
	$(PYTEST) -n $$(($(PROCESSES) + 1)) -m "not acceptance"

acceptance: setup  ## what is slow by nature: servers as processes, crashes, the wheel, the packaged model's data
	$(PYTEST) -n $$(($(PROCESSES) + 1)) -m acceptance

# At the lowest priority, as nothing waits for it; beside other work the engine of the tests may start too late.
coverage: setup  ## statements and branches that the tests run, by package (PROCESSES=)
	rm -f .coverage .coverage.*
	-nice -n 19 $(VENV)/bin/coverage run -m pytest -n $(PROCESSES) -m "not acceptance"
	$(VENV)/bin/coverage combine --quiet
	$(VENV)/bin/coverage json --quiet -o .coverage.json
	@$(VENV)/bin/python scripts/coverage_table.py .coverage.json

wholetext: setup  ## src/wholetext alone: its wheel, with nothing but its own dependencies, and its tests
	$(VENV)/bin/python scripts/wholetext.py

clients: setup  ## clients of other APIs, installed unmodified, against a server: docs/clients.md (ARGS="--only deepl")
	@$(VENV)/bin/python -m tests.clients $(or $(ARGS),--out results/clients.json); \
		failed=$$?; $(VENV)/bin/python -m tests.clients.page; exit $$failed

format: setup  ## let ruff rewrite
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .

journey: setup  ## measure every architecture of the story on this machine (ARGS=--quick: under 10 minutes on 2 cores)
	@exec $(VENV)/bin/dragoman journey $(ARGS)

chaos: setup  ## faults under load, and a ledger of every call: docs/reliability.md (ARGS="--servers pair --seconds 600 --out chaos.json")
	@exec $(VENV)/bin/python -m dragoman_bench.cli.chaos $(ARGS)

results: setup  ## docs/results.md and the pages of journeys and tunes from results/
	$(VENV)/bin/dragoman journey --render results/journey-quick --quick --page docs/journey-quick.html
	$(VENV)/bin/dragoman journey --render results/journey-h200 --page docs/journey-h200.html
	for name in cpu h200-25 h200-256; do $(VENV)/bin/python -m dragoman_bench.tune.outputs results/tune-$$name docs/tune-$$name.html; done
	$(VENV)/bin/python benchmarks/results_page.py
	$(VENV)/bin/python -m dragoman_bench.cli.chaos --render --out results/chaos.json --page docs/reliability.md
	$(VENV)/bin/python -m dragoman_bench.cli.chaos --render --out results/chaos-real.json --page docs/reliability.md
	$(VENV)/bin/python -m dragoman_bench.cli.chaos --render --out results/chaos-real-cpu.json --page docs/reliability.md
	$(VENV)/bin/python -m dragoman_bench.cli.soak --render --out results/soak.json --page docs/reliability.md
	$(VENV)/bin/python -m tests.fuzz.guided --out results/fuzz.json --page docs/reliability.md

sbom:  ## dist/sbom-cpu.cdx.json and dist/THIRD-PARTY-cpu.md: what an installation consists of, with licences (ARGS="--engine cuda")
	@$(PYTHON) scripts/sbom.py dist $(ARGS)
