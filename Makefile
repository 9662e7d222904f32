# make demo, make test: everything on a fresh Debian or Ubuntu machine, see docs/install.md.
# PYTHON=/path/to/python3 chooses the interpreter that the environments are made with.

PYTHON ?=
export PYTHON
TUTTI_PYTHON := .venv/bin/python
FUZZ_COUNT ?= 1000000

.DEFAULT_GOAL := help
.PHONY: help demo test test-faults test-mpi4py test-repeats test-asan test-tsan test-mpich check fuzz build format format-check tidy wheel clean distclean

help:  ## this list
	@awk -F':.*## ' '/^[a-z0-9 -]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo:  ## collectives, overlap and dedicated processors, with tutti and without: tables and a picture
	@tools/setup demo
	@$(TUTTI_PYTHON) examples/barotropic/demo.py
	@.venv/bin/tutti bench overlap --mpi mpich,openmpi --op irecv --sizes 1M,4M --protocol read_interrupt --apart
	@$(TUTTI_PYTHON) examples/cg/demo.py

test:  ## every test; ends with the counts and with what was skipped and why
	@tools/setup test
	@$(TUTTI_PYTHON) tools/run_tests.py all

test-mpi4py test-repeats test-asan test-tsan:  ## the long suites, by themselves
	@tools/setup test
	@$(TUTTI_PYTHON) tools/run_tests.py $(@:test-%=%)

# FAULTS="--count 1000 --seed 7" says how many and which.
test-faults:  ## inject failures into small jobs, and see that all members are told in time
	@tools/setup test
	@TEST_LIBFABRIC=$(CURDIR)/.envs/mpich/lib/mpich/libfabric.so.1 timeout 1800 \
	  build/release/tests/faults/test_faults --count 300 $(FAULTS)

# SOURCE=FOLDER names MPICH's sources, SUITE=... what tools/mpich_suite.py takes besides.
test-mpich:  ## MPICH's own tests, alone and with tutti: needs its sources (SOURCE=FOLDER)
	@tools/setup test
	@$(TUTTI_PYTHON) tools/mpich_suite.py $(if $(SOURCE),$(SOURCE),$(error SOURCE=FOLDER: MPICH's sources)) $(SUITE)

check:  ## the quick part of the tests, under three minutes
	@tools/setup test
	@$(TUTTI_PYTHON) tools/run_tests.py quick

fuzz:  ## damaged input for all that reads it, under sanitizers: FUZZ_COUNT of each kind
	@tools/setup test
	@cmake --preset asan >/dev/null && cmake --build build/asan --target fuzz
	@TUTTI_FUZZ_CORPUS=tests/fuzz/corpus ASAN_OPTIONS=abort_on_error=1 UBSAN_OPTIONS=halt_on_error=1:abort_on_error=1 \
	  build/asan/tests/fuzz/fuzz all $(FUZZ_COUNT)

build:  ## build, and install into .venv
	@tools/setup build

# PYTHONS="python3.10 python3.12" builds one for each. ARCH="x86_64 aarch64" builds for these processors and glibc 2.28.
wheel:  ## a wheel that needs no compiler and no packages where it is installed, in dist
	@tools/setup $(if $(ARCH),cross,wheel)
	@$(TUTTI_PYTHON) tools/wheel.py $(addprefix --arch ,$(ARCH)) $(PYTHONS)

format:  ## format C, C++ and CMake sources in place
	@tools/setup dev
	@tools/format

format-check:  ## say what `make format` would change; changes nothing
	@tools/setup dev
	@tools/format --check

tidy:  ## clang-tidy over the C++ sources
	@tools/setup dev
	@tools/tidy

.PHONY: docs
docs:  ## the documentation as a site in build/site; warnings and broken links are errors
	@tools/setup docs
	@.envs/docs/bin/python tools/docs/generate.py
	@NO_MKDOCS_2_WARNING=1 .envs/docs/bin/python -m mkdocs build --strict
	@echo "build/site/index.html"

clean:  ## remove what was built
	rm -rf build demo-out

distclean: clean  ## remove the environments too
	rm -rf .venv .envs
