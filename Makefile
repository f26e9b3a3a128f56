# Two commands do everything: `make run` starts the app, `make test` checks the project.
# Both set up what they need first. Options for the app: make run ARGS="--port 8000 --lock"

PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=

.PHONY: run test check chromium clean

run: $(VENV)/run.done
	$(BIN)/python app.py $(ARGS)

test: $(VENV)/dev.done chromium check
	$(BIN)/python -m pytest

check: $(VENV)/dev.done
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

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

clean:
	rm -rf $(VENV) outputs cache
