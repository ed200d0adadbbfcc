# Everything runs in .venv, which is made on first use from the hashed lock file.
# Needed beforehand: Python >= 3.11 and make. Everything comes as wheels; a platform without one of them needs a C compiler.

PYTHON ?= python3
# One more than there are cores: tests with servers wait for half of their time.
WORKERS ?= $(shell $(PYTHON) -c "import os; print(1 + (os.cpu_count() or 1))")
UV_VERSION := 0.13.7

BIN := .venv/bin
RUNNABLE := .venv/.runnable
READY := .venv/.stamp
LOCK_ENV := .venv-lock
RELEASE_ENV := .venv-release

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1
# Compiled files are kept whatever the shell says: without them each worker and each subprocess compiles all anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help run test properties test-deep pythons browser e2e mutants compare docs dist release e2e-matrix chart image fresh bench bench-kube soak lint style types format lock clean check-python

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(RUNNABLE) ## Schedule the first example on the embedded cluster
	@$(BIN)/tierwise schedule -f examples/01-llm-training

# Types are checked beside the tests, so that no core waits for the one thread of mypy. Tests are collected once before
# they are run: each worker would compile all of them.
test: style ## Check style, types and layers, and run the tests but for those of `make properties`
	@echo "== pytest, with mypy, import-linter and the checks of scripts beside it"
	@$(MAKE) --no-print-directory types >.venv/types.log 2>&1 & types=$$!; \
	trap 'kill $$types 2>/dev/null' EXIT; \
	$(BIN)/pytest --collect-only -qq $(LONG:%=--ignore=%) $(ARGS) >/dev/null 2>&1; \
	$(BIN)/pytest -n $(WORKERS) --maxprocesses 8 --dist worksteal $(LONG:%=--ignore=%) $(ARGS); tests=$$?; \
	wait $$types; typed=$$?; trap - EXIT; cat .venv/types.log; \
	exit $$((tests ? tests : typed))

# What `test` leaves out for the sake of its few minutes.
LONG := tests/bench tests/digest tests/fuzz tests/properties tests/contract/test_plugin_failures.py \
	tests/examples/test_racks.py tests/examples/test_write_a_plugin.py tests/unit/apiserver/test_kubectl.py \
	tests/unit/replay/test_calibration.py tests/unit/replay/test_lived.py tests/unit/replay/test_replay.py \
	tests/unit/replay/test_sweep.py tests/unit/snapshot/test_selector_shares.py tests/unit/test_docs_site.py

properties: $(READY) ## Run the properties, the fuzzers and the tests that take long: some ten minutes
	@echo "== properties, and tests that take long"
	@HYPOTHESIS_PROFILE=thorough $(BIN)/pytest -n $(WORKERS) --maxprocesses 8 --dist worksteal tests/contract/test_lies.py $(LONG) $(ARGS)

# And what both leave out: many more examples, new ones each time, and larger worlds.
test-deep: $(READY) ## Run the tests at full size, for new counter-examples: an hour or more
	@HYPOTHESIS_PROFILE=deep $(BIN)/pytest -n $(WORKERS) --maxprocesses 8 --dist worksteal $(ARGS)

# Not part of `test`: an environment for each of them. ARGS="tests/unit/api" runs a part.
pythons: $(READY) ## Run what `make test` runs on every Python from 3.11 to 3.14 that is on this machine
	@$(BIN)/python tools/pythons.py -n $(WORKERS) --maxprocesses 8 --dist worksteal $(LONG:%=--ignore=%) $(ARGS)

# Not part of `test`, which takes as long on a machine with a browser as on one without.
browser: $(READY) ## Use the pages in a real browser, where chromium or google-chrome is installed
	@$(BIN)/pytest -n 0 $(ALONE) tests/browser $(ARGS)

# Not part of `test`: the control plane takes minutes to build where nobody provides one (KUBEBUILDER_ASSETS).
e2e: export KUBERNETES_VERSION := $(KUBERNETES)
e2e: $(READY) ## Run the end-to-end tests on a real kube-apiserver, the newest or KUBERNETES=1.33
	@echo "== control plane"
	@tools/control_plane
	@echo "== e2e"
	@$(BIN)/pytest -n 0 $(E2E) $(ARGS)

# Not part of anything: each version that nobody has built takes 10-20 minutes to build, and some ten more to run.
e2e-matrix: $(READY) ## Run the end-to-end tests on every Kubernetes version that can be had, and say which passed
	@$(BIN)/python tools/e2e_matrix.py $(ARGS)

# With what the tests need: rows are measured with the extra `fast`, but for the one that says what it is worth.
bench: $(READY) ## Run the benchmarks
	@$(BIN)/tierwise bench $(ARGS)

mutants: $(READY) ## Change the sources in small ways, and see that the tests notice
	@$(BIN)/python tools/mutants.py $(ARGS)

# Not part of `test`: it builds programs around other projects' own Go code, which takes many minutes the first time.
# Without Go or the module proxy this says what it skips.
compare: $(READY) ## Compare fixed samples with the code of Volcano and Kubernetes
	@$(BIN)/python tools/compare/samples.py $(ARGS)

docs: $(READY) ## Build the documentation as a site in build/docs/site
	@$(BIN)/python tools/build_docs.py $(ARGS)

# Not part of `test`: it fetches what the wheel needs, once for each Python.
dist: $(RELEASE_ENV)/.stamp ## Build wheel and source archive, install them, and type every line that help, README and guides show
	@$(BIN)/python tools/dist.py --twine $(RELEASE_ENV)/bin/twine $(ARGS)

# Not part of `test`: it needs the network, and the more programs there are, the more of it is done; it says what was not.
release: $(RELEASE_ENV)/.stamp ## Gather a release in build/release: archives, chart, plugin, SBOM, provenance, signatures
	@$(RELEASE_ENV)/bin/python tools/release.py $(ARGS)

# Not part of `e2e`: helm takes four minutes to build where there is none (HELM). Without Go or the network this says so.
chart: $(READY) ## Render, check, install and upgrade the chart with the real helm, and migrate
	@helm="$${HELM:-$$(command -v helm)}"; \
	[ -n "$$helm" ] || helm="$$(tools/control_plane --with helm)/helm" || { echo "== chart skipped: see above"; exit 0; }; \
	echo "== chart, by $$("$$helm" version --short)"; \
	HELM="$$helm" $(BIN)/pytest -n 0 tests/unit/deploy && HELM="$$helm" $(BIN)/pytest -n 0 $(E2E)/test_chart.py tests/e2e/test_migration.py $(ARGS)

# Not part of `e2e`: it assembles a base from Debian's packages. Without buildah, mmdebstrap or root this says so.
image: $(READY) ## Build the image, and start everything from its root file system
	@status=0; tools/control_plane >/dev/null || status=$$?; \
	[ $$status = 0 ] && { root=$$(tools/image build/image) || status=$$?; }; \
	if [ $$status = 3 ]; then echo "== image skipped: see above"; elif [ $$status != 0 ]; then exit $$status; \
	else TIERWISE_IMAGE_ROOT=$$root $(BIN)/pytest -n 0 -s $(E2E)/test_image.py $(ARGS); fi

# Not part of `test`: it assembles a bare Debian. Without mmdebstrap, root or the network this says so.
fresh: ## Type the first commands of README and CONTRIBUTING on a bare Debian, as an ordinary user
	@tools/fresh_machine build/fresh $(ARGS) || { [ $$? = 3 ] && echo "== fresh machine skipped: see above"; }

# Not part of `test`: it takes half an hour. ARGS="--minutes 5" makes it shorter.
soak: $(READY) ## Let gangs come and go on a real kube-apiserver, and see that nothing grows
	@tools/control_plane
	@PYTHONPATH=. $(BIN)/python -m tests.e2e.soak $(ARGS)

bench-kube: $(READY) ## Measure our client and the scheduler on a real kube-apiserver
	@tools/control_plane --with kube-scheduler || tools/control_plane
	@volcano=$$($(BIN)/python tools/compare/go_programs.py || true); \
	PYTHONPATH=. $(BIN)/python -m tests.e2e.load $${volcano:+--volcano "$$volcano"} $(ARGS)

# Folders that are left out of a plain run of pytest, and asked for by their path.
ALONE := -o addopts="-q --import-mode=importlib --strict-markers --strict-config"
E2E := $(ALONE) tests/e2e

lint: style types ## Check style, types and layers

style: $(READY)
	@echo "== ruff check"
	@$(BIN)/ruff check --quiet --output-format concise .
	@echo "== ruff format"
	@$(BIN)/ruff format --check --quiet .

types: $(READY)
	@tools/pages/check
	@echo "== mypy"
	@$(BIN)/mypy --no-error-summary
	@echo "== import-linter"
	@$(BIN)/lint-imports --no-logo --no-cache
	@echo "== plain words and weight"
	@$(BIN)/python tools/house.py --ceilings tools/house.toml

format: $(READY) ## Format the code and mend what ruff can mend
	@$(BIN)/ruff check --fix --quiet . || true
	@$(BIN)/ruff format --quiet .
	@tools/pages/check --write

lock: check-python ## Write the lock files anew (UPGRADE=1 takes the newest versions)
	@$(PYTHON) -m venv --clear $(LOCK_ENV)
	@$(LOCK_ENV)/bin/pip install --quiet uv==$(UV_VERSION)
	@$(LOCK_ENV)/bin/uv pip compile $(COMPILE) pyproject.toml --output-file locks/requirements.lock
	@$(LOCK_ENV)/bin/uv pip compile $(COMPILE) pyproject.toml --extra build --constraint locks/requirements.lock \
		--output-file locks/requirements-build.lock
	@$(LOCK_ENV)/bin/uv pip compile $(COMPILE) pyproject.toml --extra dev --constraint locks/requirements-build.lock \
		--output-file locks/requirements-dev.lock
	@$(LOCK_ENV)/bin/uv pip compile $(COMPILE) pyproject.toml --extra kube --constraint locks/requirements-dev.lock \
		--output-file locks/requirements-kube.lock
	@$(LOCK_ENV)/bin/uv pip compile $(COMPILE) pyproject.toml --extra release --constraint locks/requirements-dev.lock \
		--output-file locks/requirements-release.lock
	@rm -rf $(LOCK_ENV)
	@echo "wrote locks/requirements.lock and those for building, tests, a real cluster and releases"

# One resolution for every platform and every Python from 3.11 on; nothing of this machine's set-up in the files.
COMPILE = --quiet --universal --no-strip-extras --python-version 3.11 --generate-hashes --no-annotate \
	--no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" $(if $(UPGRADE),--upgrade)

clean: ## Remove .venv, caches and build results
	@rm -rf .venv $(LOCK_ENV) $(RELEASE_ENV) build dist tools/pages/node_modules .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	@find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

check-python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "tierwise needs Python >= 3.11, but '$(PYTHON)' is not: try make PYTHON=python3.12" >&2; exit 1; }

# $(call fetch,LOCK FILE): install what a lock file lists, and say every few seconds how far that is, and how long it took.
fetch = all=$$(grep -c '^[A-Za-z0-9].*==' $(1)); begun=$$(date +%s); \
	$(BIN)/pip install --compile --progress-bar off --require-hashes -r $(1) >.venv/pip.log 2>&1 & pid=$$!; \
	while kill -0 $$pid 2>/dev/null; do sleep 3; \
		if grep -q '^Installing' .venv/pip.log; then echo "   installing, after $$(($$(date +%s) - begun)) seconds"; \
		else echo "   fetched $$(grep -c '^Collecting' .venv/pip.log) of $$all packages"; fi; done; \
	wait $$pid || { cat .venv/pip.log >&2; echo "== the packages of $(1) could not be installed; all of it: .venv/pip.log" >&2; exit 1; }; \
	echo "== ready after $$(($$(date +%s) - begun)) seconds"

# What runs: a few packages, and the project in place. The build backend is in the lock file, too: nothing unpinned is
# fetched.
$(RUNNABLE): pyproject.toml locks/requirements-build.lock | check-python
	@echo "== preparing .venv, once: half a minute, by the network"
	@$(PYTHON) -m venv .venv || { echo "$(PYTHON) cannot make environments: on Debian, install python3-venv" >&2; exit 1; }
	@$(call fetch,locks/requirements-build.lock)
	@$(BIN)/pip install --quiet --compile --no-deps --no-build-isolation -e .
	@touch $@

# What the tests need beside it.
$(READY): $(RUNNABLE) locks/requirements-dev.lock
	@echo "== preparing .venv for the tests, once: a minute or two, by the network"
	@$(call fetch,locks/requirements-dev.lock)
	@touch $@

# What checks a release; apart, because it brings much that nothing else needs.
$(RELEASE_ENV)/.stamp: $(RUNNABLE) locks/requirements-release.lock
	@echo "== preparing $(RELEASE_ENV), once: half a minute, by the network"
	@$(PYTHON) -m venv --clear $(RELEASE_ENV)
	@$(RELEASE_ENV)/bin/pip install --quiet --progress-bar off --require-hashes -r locks/requirements-release.lock
	@touch $@
