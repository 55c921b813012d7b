# Two commands: `make run` trains, `make test` checks. All targets set up .venv first.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
DECENT := benchmarks/.decent-bench/bin/python
AUDIT  := .audit/bin/pip-audit

.PHONY: run test test-ranks test-types test-docs test-documented soak coverage audit bench docs clean

run: $(READY)
	$(BIN)/proxmesh run --l1 5e-4

test: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/codespell
	$(BIN)/pytest -m 'not ranks and not documented and not long' --numprocesses 2
	$(MAKE) --no-print-directory --jobs 3 test-ranks test-types test-docs

test-ranks: $(READY)  # they wait for one another most of the time: room for the others
	$(BIN)/pytest -m ranks

test-types: $(READY)
	$(BIN)/mypy

test-docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

test-documented: $(READY)  # apart from `make test`: longer, and seldom broken
	$(BIN)/pytest -m 'documented or long' --numprocesses 2 --dist loadgroup

soak: $(READY)  # an hour: kills, long runs, ten thousand hostile files per reader
	$(BIN)/pytest -m soak --numprocesses 2

coverage: $(READY)  # apart: it makes the suite half as long again
	$(BIN)/pytest -m 'not ranks and not documented' --numprocesses 2 --cov
	$(BIN)/pytest -m ranks --cov --cov-append --cov-report=term-missing:skip-covered

audit: $(AUDIT)  # apart: its database cannot be reached from every network
	@$(AUDIT) --strict --requirement constraints.txt --no-deps --disable-pip \
	  --progress-spinner off 2>.audit/errors && echo "audit: nothing known against constraints.txt" || \
	  { grep '^Found' .audit/errors || \
	    echo "audit: no answer from the database of vulnerabilities; see .audit/errors"; \
	    exit 1; }

bench: $(READY) $(DECENT)
	PROXMESH_DECENT_BENCH=$${PROXMESH_DECENT_BENCH:-$$(ls $(DECENT) 2>/dev/null)} \
	  $(BIN)/proxmesh bench --out benchmarks/results

docs: $(READY)
	$(BIN)/mkdocs serve

clean:
	rm -rf $(VENV) .audit site .mypy_cache .pytest_cache .ruff_cache .hypothesis

# pip rather than uv or poetry: with constraints.txt it takes the CPU build of torch.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

$(AUDIT):
	@$(PYTHON) -m venv .audit && .audit/bin/python -m pip install --quiet \
	  --retries 0 --timeout 10 pip-audit==2.9.0 2>.audit/errors || \
	  { echo "audit: pip-audit cannot be installed from here; see .audit/errors"; exit 1; }

# decent-bench, for comparison: it needs a newer Python and an environment of its own.
# Where there is none, `proxmesh bench` says so and leaves it out.
$(DECENT):
	@for python in python3.14 python3.13 $(HOME)/.pyenv/versions/3.1[34]*/bin/python; do \
	  $$python -m venv benchmarks/.decent-bench 2>/dev/null && break; done; \
	test ! -e $@ || $@ -m pip install --quiet decent-bench==0.3.0 || rm -rf benchmarks/.decent-bench
