# Two commands do everything on a machine that has Python 3.11 or newer:
#   make demo   install and run the main job
#   make test   install, lint, check types, run every test
# and on a machine with a CUDA GPU, whose torch is in place:
#   make test-gpu   run the tests that need one, and record the result
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test test-gpu lint types pytest triton bench clean help

help:
	@sed -n 's/^#   //p' Makefile

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("regard needs Python 3.11 or newer, this is " + sys.version.split()[0] + ". Try: make PYTHON=python3.12 ...") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

demo: $(STAMP)
	$(BIN)/regard demo --out demo --overwrite

test: lint types pytest triton

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

# shapes in signatures are checked at run time, except under torch.compile and where the input is wrong on purpose
pytest: $(STAMP)
	$(BIN)/python -m pytest -m "not unchecked" -n auto --jaxtyping-packages=regard,beartype.beartype
	$(BIN)/python -m pytest -m unchecked -n auto

# Triton is no part of the environment: beside a torch for the CPU it would serve nothing but these tests
triton: $(STAMP)
	@test -d $(VENV)/triton || $(BIN)/python -m pip install --quiet --no-deps --target $(VENV)/triton triton==3.9.0 || \
		echo "There is no Triton for this machine: its kernels go untested."
	@if test -d $(VENV)/triton/triton; then set -ex; \
		TRITON_INTERPRET=1 PYTHONPATH=$(VENV)/triton $(BIN)/python -m pytest tests/interpreted -n auto; \
		PYTHONPATH=$(VENV)/triton $(BIN)/python -m pytest tests/compiled -n auto; fi

test-gpu:
	$(PYTHON) -m benchmarks.gpu_tests

bench: $(STAMP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[bench]'
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) demo build dist .pytest_cache .mypy_cache .ruff_cache
