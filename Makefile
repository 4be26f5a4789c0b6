# make demo       set everything up and show the main job
# make test       set everything up and run the tests: offline, under ten minutes on two cores
# make test-fast  only the fast tests: about a minute
# make test-rest  what `make test` leaves out: tests that take long, or need a browser, a second environment and the like
# make test-cpus  tests that depend on the processor, under switches that make it compute like other processors
# make test-all   test, test-rest and test-cpus
# make lint       ruff, mypy and the word list of tools/check_words.py
# make docs       the documentation site, into build/docs: warnings are errors, no network
# make coverage   `make test` with a report of the lines that no test reaches, in build/coverage
# make dist       source archive and wheel in dist, checked for upload
# make bench      the benchmarks, each against a peer in one interleaved run

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
PYTEST_FLAGS ?= -n 2 -q
PYTEST = OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(PYTEST_FLAGS)

.PHONY: demo test test-fast test-rest test-cpus test-all lint docs coverage dist bench clean

demo: $(VENV)/.package
	$(BIN)/python examples/demo.py

test: $(VENV)/.test $(VENV)/peers/.done
	$(PYTEST) -m "not extended"

test-fast: $(VENV)/.test
	$(PYTEST) -m "not slow"

# pytest exits with 5 if no test has the marker, which is not a failure here.
test-rest: $(VENV)/.test $(VENV)/peers/.done
	$(PYTEST) -m extended || [ $$? -eq 5 ]

test-cpus: $(VENV)/.test $(VENV)/peers/.done
	$(BIN)/python -m tests.cpus.run

test-all: test test-rest test-cpus

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python tools/check_words.py

docs: $(VENV)/.docs
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet docs build/docs
	@echo "Open build/docs/index.html."

coverage: $(VENV)/.test $(VENV)/peers/.done
	rm -rf build/coverage
	$(PYTEST) -m "not extended" --cov --cov-report=term --cov-report=html

dist: $(VENV)/.package
	$(PIP) --editable '.[release]'
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/python -m twine check --strict dist/*
	$(BIN)/python -m auditwheel show dist/*.whl

bench: $(VENV)/.test $(VENV)/.bench $(VENV)/peers/.done
	$(BIN)/python bench/embed.py --size small
	$(BIN)/python bench/embed.py --size full
	$(BIN)/python bench/embed.py --peers
	$(BIN)/python bench/tokenizer.py --speed

# torch is installed first and alone: with other packages, a resolver may choose a build with CUDA.
$(VENV)/.package: pyproject.toml constraints.txt hatch_build.py $(wildcard src/elmokit/native/*.[ch]) src/elmokit/native/build.py
	$(PYTHON) -m venv $(VENV)
	$(PIP) torch
	$(PIP) --editable '.[analysis]'
	@touch $@

$(VENV)/.test: $(VENV)/.package
	$(PIP) --editable '.[test,dev]'
	@touch $@

$(VENV)/.bench: $(VENV)/.package
	$(PIP) --editable '.[bench]'
	@touch $@

$(VENV)/.docs: $(VENV)/.package
	$(PIP) --editable '.[docs]'
	@touch $@

# AllenNLP pins a torch version of 2022, so it is unpacked without its dependencies, outside the import path. Tests and
# benchmarks run its own module files; if it is not available, they say so and skip.
$(VENV)/peers/.done: $(VENV)/.package
	@mkdir -p $(VENV)/peers
	-$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --upgrade --target $(VENV)/peers allennlp==2.10.1 \
		&& touch $@

clean:
	rm -rf $(VENV) demo-out build dist
