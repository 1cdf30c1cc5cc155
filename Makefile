# Every target sets up what it needs in $(VENV) and nothing outside the clone.
#   make test PYTHON=python3.12        another interpreter (for a new $(VENV))
#   make test ARGS="-n 0 -k ece"       other pytest arguments

PYTHON ?= python3
VENV   ?= .venv
LOWEST ?= .venv-lowest
INSPECT ?= .venv-interop-inspect
LM_EVAL ?= .venv-interop-lm-eval
ARGS   ?= -n 2
UV     ?= uv

PY  := $(VENV)/bin/python
PIP  = env PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PIP_USER=0 PYTHON="$(PYTHON)" VENV="$(VENV)" sh scripts/pip
LOCKED = -qq --require-hashes --no-deps --only-binary :all: -r

TRIAGE := examples/triage
INTEROP := build/interop

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-all explore test-lowest interop interop-tools check coverage bench soak simulate docs lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' Makefile

demo: $(VENV)/.run $(TRIAGE)/answers.jsonl ## evaluate the bundled example: table on screen, artifact in build/demo
	$(VENV)/bin/steelyard evaluate $(TRIAGE)/answers.jsonl --task-file $(TRIAGE)/triage.task.yaml --cluster patient --where perturbation=none --out build/demo

$(TRIAGE)/answers.jsonl: | $(VENV)/.run
	$(PY) $(TRIAGE)/make.py

test: $(VENV)/.dev ## run the tests that a change is judged by: every behaviour once, in minutes (ARGS="-n 2")
	$(PY) -m pytest $(ARGS)

test-all: $(VENV)/.dev ## run these with more examples, and those marked slow: simulations, shells, LaTeX, models, whole documents
	$(PY) -m pytest -m "slow or not slow" --hypothesis-profile=more $(ARGS)

# What it finds becomes an example that is written down next to the test; `make test` tries the same ones everywhere.
explore: $(VENV)/.dev ## look for examples that nobody has tried yet, other ones every time (an hour)
	$(PY) -m pytest -m hypothesis --hypothesis-profile=explore $(ARGS)

# Old packages call newer ones by names that are going away; what we call so ourselves fails in `make test`.
test-lowest: $(LOWEST)/.tests ## run the tests with the lowest versions that pyproject.toml allows (Python 3.11)
	$(LOWEST)/bin/python -m pytest -W ignore::DeprecationWarning $(ARGS)

# One folder per tool, made by the tool itself in an environment of its own; the tests skip what is not there.
interop: $(VENV)/.dev $(INTEROP)/inspect/facts.json $(INTEROP)/lm_eval/.made ## let other tools write logs, and read ours
	STEELYARD_INTEROP="$(CURDIR)/$(INTEROP)" STEELYARD_INTEROP_PYTHON="$(CURDIR)/$(INSPECT)/bin/python" \
		$(PY) -m pytest $(ARGS) tests/interop

interop-tools: $(INSPECT)/.tool $(LM_EVAL)/.tool

$(INTEROP)/lm_eval/.made: $(LM_EVAL)/.tool tests/interop/make_lm_eval.py
	rm -rf $(@D)
	$(LM_EVAL)/bin/python tests/interop/make_lm_eval.py $(@D)
	touch $@

$(INTEROP)/inspect/facts.json: $(INSPECT)/.tool tests/interop/make_inspect_logs.py
	rm -rf $(@D)
	$(INSPECT)/bin/python tests/interop/make_inspect_logs.py $(@D)

check: $(VENV)/.dev ## lint, format, types, import contracts, declared dependencies
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(VENV)/bin/lint-imports
	$(VENV)/bin/deptry src

coverage: $(VENV)/.dev ## run the tests, say which lines they reach, and write build/coverage
	rm -rf build/coverage
	mkdir -p build/coverage
	COVERAGE_FILE="$(CURDIR)/build/coverage/data" $(PY) -m coverage run -m pytest $(ARGS)
	$(PY) -m coverage combine --quiet
	$(PY) -m coverage html --quiet
	$(PY) -m coverage xml --quiet
	$(PY) -m coverage report

bench: $(VENV)/.bench ## measure against the peers (installed on demand) and print ratios
	$(PY) -m bench

soak: $(VENV)/.dev ## kill a run of 10,000 records thirty times, and see that nothing is lost or doubled (minutes)
	$(PY) -m tests.support.soak

simulate: $(VENV)/.bench ## simulate how often the intervals hold the true value, and what peers would say
	$(PY) -m bench.simulate

docs: $(VENV)/.dev ## write the outputs in README and docs again, and docs/metrics.md
	$(PY) -m scripts.docs

# The stamps are files of their own: a failed `python3 -m venv` leaves bin/python behind.
$(VENV)/.made: scripts/venv
	PYTHON="$(PYTHON)" VENV="$(VENV)" sh scripts/venv
	touch $@

$(VENV)/.run: $(VENV)/.made requirements.lock pyproject.toml src/steelyard/__init__.py
	@echo "installing the locked packages into $(VENV) (about a minute, once)"
	@$(PIP) $(LOCKED) requirements.lock
	@$(PIP) -qq --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.run requirements-dev.lock
	@echo "installing what the tests need beside them (about a minute, once)"
	@$(PIP) $(LOCKED) requirements-dev.lock
	@touch $@

$(VENV)/.bench: $(VENV)/.run requirements-bench.lock
	@echo "installing the peers of the benchmarks beside them (about a minute, once)"
	@$(PIP) $(LOCKED) requirements-bench.lock
	@touch $@

$(LOWEST)/.tests: override VENV := $(LOWEST)
$(LOWEST)/.tests: scripts/venv requirements-lowest.lock pyproject.toml src/steelyard/__init__.py
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info[:2] > (3, 12))' || \
		{ echo "the lowest versions have no wheels for Python 3.13 and newer: make test-lowest PYTHON=python3.11"; exit 1; }
	PYTHON="$(PYTHON)" VENV="$(VENV)" sh scripts/venv
	@echo "installing the lowest versions into $(VENV) (about a minute, once)"
	@$(PIP) $(LOCKED) requirements-lowest.lock
	@$(PIP) -qq --no-deps --no-build-isolation -e .
	@touch $@

$(INSPECT)/.tool: override VENV := $(INSPECT)
$(INSPECT)/.tool: scripts/venv requirements-interop-inspect.lock
	PYTHON="$(PYTHON)" VENV="$(VENV)" sh scripts/venv
	@echo "installing inspect_ai into $(VENV) (about a minute, once)"
	@$(PIP) $(LOCKED) requirements-interop-inspect.lock
	@touch $@

$(LM_EVAL)/.tool: override VENV := $(LM_EVAL)
$(LM_EVAL)/.tool: scripts/venv requirements-interop-lm-eval.lock
	PYTHON="$(PYTHON)" VENV="$(VENV)" sh scripts/venv
	@echo "installing lm-eval into $(VENV) (some minutes, once)"
	@$(PIP) -qq --require-hashes --no-deps -r requirements-interop-lm-eval.lock
	@touch $@

# Pins that still fit are kept; `make lock UPGRADE=--upgrade` moves them.
SOURCES = $(UV) pip compile --universal --generate-hashes --python-version 3.11 \
	--quiet --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" $(UPGRADE)
RESOLVE = $(SOURCES) --only-binary :all:
COMPILE = $(RESOLVE) pyproject.toml

# A lowered bound is a pin that still fits: `make lock UPGRADE="--upgrade-package numpy"` moves that one down.
lock: ## resolve the requirements*.lock files again (needs uv)
	$(COMPILE) --extra fast --group build -o requirements.lock
	$(COMPILE) --extra fast --extra embeddings --extra xlsx --extra mlflow --extra local --extra energy --extra icd --extra dev --group build -c requirements.lock -o requirements-dev.lock
	$(COMPILE) --extra fast --extra bench --group build -c requirements-dev.lock -o requirements-bench.lock
	$(COMPILE) --resolution lowest-direct --extra fast --extra embeddings --extra xlsx --extra mlflow --extra local --extra energy --extra icd --extra test --group build -o requirements-lowest.lock
	$(RESOLVE) --group interop-inspect -o requirements-interop-inspect.lock
	$(SOURCES) --group interop-lm-eval -o requirements-interop-lm-eval.lock
	@! grep -nE '://|--(index|extra-index|find-links|trusted-host)|@ ' requirements*.lock

clean: ## remove build output and caches (the virtual environment stays)
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests bench examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
