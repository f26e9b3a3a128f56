# Two commands do everything: `make run` starts the app, `make test` checks the project.
# Both set up what they need first. Options for the app: make run ARGS="--port 8000 --lock"

PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=
# Packages come from two places at once, and the checks of the code use both cores.
MAKEFLAGS += --jobs=2

.PHONY: run test check lint types imports hostile chromium lock audit clean

run: $(VENV)/run.done
	$(BIN)/python app.py $(ARGS)

test: $(VENV)/dev.done chromium check
	$(BIN)/python -m pytest

check: types lint imports

lint: $(VENV)/dev.done
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/dev.done
	$(BIN)/mypy

imports: $(VENV)/dev.done
	$(BIN)/lint-imports

# Ten times the hostile requests of the tests, other ones each time.
hostile: $(VENV)/dev.done
	TPU_UI_TEST_HOSTILE=10 $(BIN)/python -m pytest --numprocesses=0 tests/ui/test_hostile.py

chromium:
	@command -v chromium >/dev/null || { \
	  sudo=; [ "$$(id -u)" = 0 ] || sudo=sudo; \
	  $$sudo apt-get update -qq && $$sudo apt-get install -y -qq chromium; }

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/run.done: requirements.txt | $(VENV)/bin/python
	$(BIN)/pip install --quiet -r requirements.txt
	touch $@

$(VENV)/dev.done: requirements-dev.txt requirements.txt | $(VENV)/bin/python
	$(BIN)/pip install --quiet -r requirements-dev.txt
	touch $@ $(VENV)/run.done

# Every package with the hashes of its files on PyPI, in the versions that are installed here.
lock: $(VENV)/dev.done
	$(BIN)/pip install --quiet uv==0.13.9
	$(BIN)/pip freeze | grep == | grep -v + > $(VENV)/tried.txt
	$(BIN)/uv pip compile --no-config --quiet --generate-hashes --no-annotate \
	  --python-version 3.11 --python-platform x86_64-manylinux_2_31 \
	  --custom-compile-command "make lock" --constraints $(VENV)/tried.txt \
	  --output-file requirements.lock requirements.txt

# Known faults of these packages. Needs a network that reaches PyPI's advisories.
audit: $(VENV)/dev.done
	$(BIN)/pip install --quiet pip-audit==2.10.1
	$(BIN)/pip-audit --requirement requirements.lock --disable-pip --require-hashes

clean:
	rm -rf $(VENV) outputs cache
