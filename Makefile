# `make train` and `make test` do all the set-up they need; `make setup` does nothing when it is done.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.up-to-date
TPU_STAMP := .venv-tpu/.up-to-date
# uv where it is installed, else pip.
INSTALL := $(if $(shell command -v uv),uv pip install --python $(BIN)/python,$(BIN)/python -m pip install --disable-pip-version-check) --quiet
# A file of tests stays in one process, which makes its fixtures once; tests/conftest.py says which files begin. If a
# worker dies the suite ends: with another in its place it would wait for ever.
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadscope --no-loadscope-reorder --max-worker-restart 0 --durations=15 --durations-min=5

# Compiled programs are kept between runs.
export JAX_COMPILATION_CACHE_DIR ?= $(CURDIR)/.jax_cache
export JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS ?= 0.2

.PHONY: setup constraints train gallery docs notebooks test suite test-quick test-long test-window check-tpu soak lint clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(INSTALL) --constraint constraints.txt --editable '.[test,plots]'
	touch $@

# Writes down the versions installed here of what pyproject.toml names. Upgrade what should be newer, run the
# tests, then run this.
constraints: setup
	echo "# The versions azjax is developed with; written by \`make constraints\`." > constraints.txt
	$(BIN)/python -c "import importlib.metadata as m, re; \
	names = {re.match(r'[\w.-]+', line)[0] for line in m.requires('azjax') if 'notebooks' not in line} - {'azjax'}; \
	print(*sorted(f'{name}=={m.version(name)}' for name in names), sep='\n')" >> constraints.txt
	touch $(STAMP)

train: setup  # a run that was stopped goes on, a finished one says so
	if test -e runs/hex5/config.json; then $(BIN)/azjax resume runs/hex5; else $(BIN)/azjax train hex5; fi

gallery: setup
	$(BIN)/python -m experiments.gallery

# The pages, with the notebooks' output: what has not changed is not run again. `make docs EXECUTE=off` runs nothing.
EXECUTE ?= cache
docs: setup
	$(BIN)/python -m sphinx -W --keep-going -q -b html -D nb_execution_mode=$(EXECUTE) docs build/docs

# As people run them: about an hour on two cores.
notebooks: setup
	$(BIN)/python notebooks/execute.py

# The linter takes the time in which the first tests wait for each other.
test: setup
	@$(MAKE) --no-print-directory --jobs 2 lint suite

suite: setup
	$(PYTEST)

test-quick: setup lint
	$(PYTEST) -m "not slow"

# The reproductions that smaller tests stand for in the suite (CONTRIBUTING.md lists them): a few minutes.
test-long: setup
	$(PYTEST) --long -m long

# Compiles the training iteration for TPUs and a GPU that are not there, and checks what came of it: four programs, half
# a minute of one core each. The compilers (libtpu, the CUDA plugin) have an environment of their own, of 2 GB.
check-tpu: $(TPU_STAMP)
	.venv-tpu/bin/python -m experiments.accelerator.check --keep

$(TPU_STAMP): pyproject.toml constraints.txt
	test -x .venv-tpu/bin/python || $(PYTHON) -m venv .venv-tpu
	.venv-tpu/bin/python -m pip install --quiet --constraint constraints.txt --editable . 'jax[tpu]'
	.venv-tpu/bin/python -m pip install --quiet --no-deps $(foreach name,plugin pjrt,jax-cuda13-$(name)==$(shell \
	    sed -n 's/^jax==//p' constraints.txt))
	touch $@

# The oldest and the newest versions that are supported, each in an environment of its own below build/window.
FILES ?=
test-window:
	$(PYTHON) tests/window.py $(FILES)

# Some hours: over 10,000 spoiled inputs, 200 damaged runs, 50 kills, and two hours of watched memory.
soak: setup
	$(BIN)/python -m pytest --soak --hypothesis-profile soak tests/cli/test_fuzz.py tests/training/test_chaos.py tests/training/test_presets.py
	$(BIN)/python -m tests.soak --hours 2

# Folders are all that the last two can read, so they read a copy in which envs/ lies where it is installed.
lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	rm -rf build/lint && mkdir -p build/lint && cp -R azjax build/lint && cp -R envs build/lint/azjax
	cd build/lint && $(CURDIR)/$(BIN)/lint-imports --config $(CURDIR)/pyproject.toml --no-cache --no-logo
	$(BIN)/pyrefly check

clean:
	rm -rf .venv .venv-tpu build dist *.egg-info .pytest_cache .ruff_cache .jax_cache
