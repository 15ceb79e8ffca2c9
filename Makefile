# Everything here works on a machine that has Python 3.11 or newer, and nothing else.
#
#   make quickstart   train a speech recogniser and use it (one minute or two)
#   make test         all tests but those of more than half a minute
#   make check        what to run before a commit: format, lint, types, layers, quick tests
#   make coverage     all tests, and which branches of the types and the graph they do not reach
#   make proof        the long tests and the benchmarks: what the documentation's figures rest on
#   make clean        remove what the others made

VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= $(firstword $(foreach name,python3.11 python3.12 python3.13 python3 python,\
	$(shell $(name) -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo $(name))))
PIP := $(BIN)/python -m pip --disable-pip-version-check
PYTEST_ARGS ?=

.PHONY: quickstart test check coverage proof format clean setup

quickstart: $(VENV)/.installed-run
	$(BIN)/neumo quickstart

test: $(VENV)/.installed-dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -m "not proof" $(PYTEST_ARGS)

check: $(VENV)/.installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/lint-imports
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -x -m "not slow and not proof" $(PYTEST_ARGS)

coverage: $(VENV)/.installed-dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -m "not proof" --cov=neumo.types --cov=neumo.graph --cov-branch \
		--cov-report=term-missing:skip-covered $(PYTEST_ARGS)

proof: $(VENV)/.installed-dev
	$(BIN)/python proofs/lowest.py
	OMP_NUM_THREADS=1 $(BIN)/python proofs/lengths.py
	OMP_NUM_THREADS=1 $(BIN)/python proofs/kills.py
	$(BIN)/python proofs/two_nodes.py
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "slow or proof" $(PYTEST_ARGS)
	set -e; for file in $(sort $(wildcard benchmarks/*.py)); do \
		echo "== $$file"; OMP_NUM_THREADS=1 $(BIN)/python $$file; done

format: $(VENV)/.installed-dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

setup: $(VENV)/.installed-dev

clean:
	rm -rf $(VENV) build dist runs .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp is newer than what was installed from; a second `make` installs nothing.
$(VENV)/.installed-run: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) install -q -c constraints.txt -e '.[torch,asr,tts]'
	@touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) install -q -c constraints.txt -e '.[all,dev]'
	@touch $(VENV)/.installed-run $@

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "neumo needs Python 3.11 or newer; none of python3.11, python3.12, python3.13, python3, python is" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "no virtual environment could be made (on Debian: apt install python3-venv)" >&2; exit 1; }
