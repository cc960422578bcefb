# Everything that a clean clone needs: Python 3.11, 3.12 or 3.13, and make.
#
# Each target first sets up what it needs in $(VENV); stamp files there depend on pyproject.toml, so
# that happens once and again only when the dependencies change.

VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input
PIP_INSTALL := $(PIP) install --quiet
WORKERS ?= 2
DOCS := NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile

# torch takes 6 GB on Linux, with libraries for graphics cards: it gets an environment of its own on top.
TORCH := $(VENV)/torch
# In processes of their own: torch's compiler cannot be loaded where TensorFlow is.
DATA_TESTS := tests/patchbeam/data
SITE := -c "import sysconfig; print(sysconfig.get_path('purelib'))"

# Is the interpreter one that Patchbeam supports, and can it make a virtual environment?
PYTHON_CHECK := import sys; assert (3, 11) <= sys.version_info < (3, 14); import venv, ensurepip

.PHONY: help demo test test-long test-flink test-torch torch lint docs clean distclean
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.base ## write a sample scene, export it to TFRecord shards, check and draw them (in out/)
	$(BIN)/patchbeam scene out/scene.tif --width 2048 --height 2048 --overwrite
	$(BIN)/patchbeam plan configs/export_image.yaml
	$(BIN)/patchbeam export-image configs/export_image.yaml --overwrite
	$(BIN)/patchbeam verify out/export/scene
	$(BIN)/patchbeam look out/export/scene -o out/demo.png

test: $(VENV)/.test ## run the bounded test suite
	$(PYTEST) --timeout 300 -m "not long" $(PYTEST_ARGS)

test-long: $(VENV)/.test ## run every test, the long ones too
	HYPOTHESIS_PROFILE=long $(PYTEST) --timeout 1800 $(PYTEST_ARGS)
	@if $(MAKE) --no-print-directory torch; then $(MAKE) --no-print-directory test-torch; \
	else echo "torch could not be fetched; the tests that need it have not run" >&2; fi

test-flink: $(VENV)/.test ## run jobs on a real Flink (fetched through PyPI and Maven; needs Java)
	$(BIN)/python tests/flink.py $(PYTEST_ARGS)

test-torch: $(TORCH)/.ready ## run the training side with torch and grain (fetched through PyPI; large)
	$(TORCH)/bin/python -m pytest --timeout 300 $(DATA_TESTS)/test_torch.py $(PYTEST_ARGS)
	$(TORCH)/bin/python -m pytest --timeout 300 $(DATA_TESTS)/test_adapters.py $(PYTEST_ARGS)
	$(TORCH)/bin/python -m pytest --timeout 300 -k "not keras" $(DATA_TESTS)/test_docs.py $(PYTEST_ARGS)

torch: $(TORCH)/.ready

lint: $(VENV)/.lint $(VENV)/.docs ## check style, types and the documentation's links
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(DOCS)

docs: $(VENV)/.docs ## build the documentation site (in out/site)
	$(DOCS)

clean: ## remove outputs and caches
	rm -rf out build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -not -path './$(VENV)/*' -prune -exec rm -rf {} +

distclean: clean ## remove the virtual environment too
	rm -rf $(VENV)

# PYTHON=/path/to/python chooses an interpreter; without it the first that will do is taken. A name
# on the PATH may be a launcher without an interpreter behind it, hence the trial run.
$(BIN)/python:
	@python=; \
	for candidate in $(if $(PYTHON),"$(PYTHON)",python3.11 python3.12 python3.13 python3 python); do \
	  if "$$candidate" -c "$(PYTHON_CHECK)" >/dev/null 2>&1; then python=$$candidate; break; fi; \
	done; \
	if [ -z "$$python" ]; then \
	  found=$$($(if $(PYTHON),"$(PYTHON)",python3) --version 2>&1); \
	  echo "Patchbeam needs Python 3.11, 3.12 or 3.13 with its venv module; $(if $(PYTHON),$(PYTHON),python3) is: $${found:-missing}." >&2; \
	  echo "Install one (on Debian and Ubuntu: python3 and python3-venv), or name it: make PYTHON=/path/to/python3.12 ..." >&2; \
	  exit 1; \
	fi; \
	echo "Setting up $(VENV) with $$("$$python" --version)"; \
	"$$python" -m venv --clear "$(VENV)"

$(VENV)/.base: pyproject.toml setup.py | $(BIN)/python
	$(PIP_INSTALL) --editable .
	@touch $@

$(VENV)/.test: $(VENV)/.base
	$(PIP_INSTALL) --editable '.[test]'
	@touch $@

$(TORCH)/.ready: $(VENV)/.test
	$(BIN)/python -m venv --clear $(TORCH)
	$(BIN)/python $(SITE) > "$$($(TORCH)/bin/python $(SITE))/base.pth"
	$(TORCH)/bin/python -m pip --disable-pip-version-check --no-input install --quiet --editable '.[train]'
	@touch $@

$(VENV)/.lint: $(VENV)/.base
	$(PIP_INSTALL) --editable '.[lint]'
	@touch $@

$(VENV)/.docs: $(VENV)/.base
	$(PIP_INSTALL) --editable '.[docs]'
	@touch $@
