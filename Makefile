# Everything starts from Python 3.11 with its venv module; each target sets up what it needs in .venv.
# ARGS are handed on: make run ARGS=--help, make test ARGS="-k journal"

PYTHON ?= python3
VENV   := .venv
PIP    := $(VENV)/bin/python -m pip --quiet --no-input --disable-pip-version-check install -c constraints.txt
ARGS   ?=

# The kernels are compiled once, here, and not while somebody waits for the first start. Who starts Spark often prepares that, too.
COMPILE = $(VENV)/bin/python -c 'from bridgehead.wire import kernels; kernels.warm()'

# Compiled modules are kept beside their sources, as the compiled kernels are, whatever the environment says of that: the tests
# alone start hundreds of processes, and each of them would spend a fifth of its start on compiling them again.
export PYTHONDONTWRITEBYTECODE :=

# Debian keeps mosquitto in a directory that is not on everybody's path.
export PATH := $(PATH):/usr/sbin:/sbin

.PHONY: help install run test check bench outage soak
.DEFAULT_GOAL := help

help:
	@echo "make install   set up .venv with everything a node needs"
	@echo "make run       the demo: two nodes, a bridge between them, and what crosses it"
	@echo "make test      the tests"
	@echo "make check     ruff and mypy"
	@echo "make bench     the benchmarks"
	@echo "make outage    what is lost while the remote is away, against Mosquitto"
	@echo "make soak      many random faults, not only the few of the tests: ARGS=\"--faults 1000 --seed 1\""

install: $(VENV)/.ready-to-run

run: $(VENV)/.ready-to-run
	$(VENV)/bin/bridgehead demo $(ARGS)

# All of the tests are shared by three workers (tests/support/lanes.py): many only wait, for a back-off or a watchdog, and two cores
# have time for others meanwhile. A choice of them is not worth the start of a second one.
# Without mosquitto the tests that need it are left out, unless BRIDGEHEAD_REQUIRE_MOSQUITTO says that this is a fault.
test: PYTEST = $(VENV)/bin/python -m pytest $(if $(filter -k% -m% -n% tests% --lf --pdb,$(ARGS)),,-n 3)
test: $(VENV)/.ready-to-develop
	@if scripts/need-mosquitto; then $(PYTEST) $(ARGS); \
	elif [ -n "$$BRIDGEHEAD_REQUIRE_MOSQUITTO" ]; then echo "mosquitto is required here" >&2; exit 1; \
	else $(PYTEST) -m "not mosquitto" $(ARGS); fi

check: $(VENV)/.ready-to-develop
	$(VENV)/bin/ruff check
	$(VENV)/bin/mypy

bench: $(VENV)/.ready-to-develop
	$(VENV)/bin/python -m benchmarks $(ARGS)
	$(VENV)/bin/python -m benchmarks.synced
	$(VENV)/bin/python -m benchmarks.scale

outage: $(VENV)/.ready-to-develop
	$(VENV)/bin/python -m benchmarks.outage $(ARGS)

soak: $(VENV)/.ready-to-develop
	PYTHONPATH=tests $(VENV)/bin/python -m fault.soak $(ARGS)

# setuptools first and without build isolation: what builds the package is pinned like everything else.
$(VENV)/.ready-to-run: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) setuptools
	$(PIP) --no-build-isolation -e .
	@$(COMPILE)
	@touch $@

$(VENV)/.ready-to-develop: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) setuptools
	$(PIP) --no-build-isolation -e '.[dev]'
	@$(VENV)/bin/bridgehead prepare
	@touch $@ $(VENV)/.ready-to-run

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or later is needed" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "Python's venv module is needed (Debian: python3-venv)" >&2; exit 1; }
