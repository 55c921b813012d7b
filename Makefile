# Two commands: `make run` trains, `make test` checks. Both set up .venv first.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: run test bench docs clean

run: $(READY)
	$(BIN)/proxmesh run

test: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/codespell
	$(BIN)/mypy
	$(BIN)/pytest
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

bench: $(READY)
	$(BIN)/python benchmarks/step.py
	$(BIN)/python benchmarks/memory.py

docs: $(READY)
	$(BIN)/mkdocs serve

clean:
	rm -rf $(VENV) site .mypy_cache .pytest_cache .ruff_cache .hypothesis

# pip rather than uv or poetry: with constraints.txt it takes the CPU build of torch.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@
