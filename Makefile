# Needs make, Python 3.11 or newer and its pip. Everything else goes into $(VENV).
PYTHON ?= python3
VENV ?= .venv
# The torch that the integrations are tested with; name a CPU build of your own if this one pulls in GPU libraries.
TORCH ?= torch==2.13.0

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help run paper published figure-2 figure-3 findings accountants batching shuffles pictures adaptivity statements training test fuzz wheel bench scaling docs clean
.DELETE_ON_ERROR:

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "make %-12s%s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

run: $(VENV)/.installed-cli ## set up and print what the choice of sampling and relation does to epsilon
	@$(BIN)/tightrope contrast --mechanism gaussian --noise 0.8 --sampling poisson --rate 0.001 --steps 10000 --delta 1e-6

paper: $(VENV)/.installed-cli,plot,dist,opendp ## set up, then reproduce the paper: docs/paper.md and its figures (some minutes)
	@$(BIN)/python -m reproduction paper --out docs/figures --page docs/paper.md

published: $(VENV)/.installed-cli,statement ## set up, then account published runs again: docs/findings/published.md
	@$(BIN)/python -m reproduction published examples/papers.toml --markdown > $(VENV)/published.md
	@mv $(VENV)/published.md docs/findings/published.md

figure-2: $(VENV)/.installed-cli,plot ## set up, then draw the noise that privacy targets need against the sampling rate
	@$(BIN)/python -m reproduction paper --out figures --item figure-2

figure-3: $(VENV)/.installed-cli,plot ## set up, then draw which fixed adversary is worst for Laplace noise under substitution
	@$(BIN)/python -m reproduction paper --out figures --item figure-3

findings: $(VENV)/.installed-cli ## set up, then write docs/findings/substitution.md (half an hour; rows that are known are kept)
	@$(BIN)/python examples/substitution.py --out docs/findings

accountants: $(VENV)/.installed-cli ## set up, then write docs/findings/accountants.md: every accountant on many runs (rows that are known are kept)
	@$(BIN)/python examples/accountants.py --out docs/findings

batching: $(VENV)/.installed-cli,plot ## set up, then write docs/findings/batching.md: one training run under every batching (rows that are known are kept)
	@$(BIN)/python examples/batching.py --out docs/findings --figures docs/figures

shuffles: $(VENV)/.installed-cli,plot ## set up, then write docs/findings/shuffles.md: shuffled batches from both sides (rows that are known are kept)
	@$(BIN)/python examples/shuffles.py --out docs/findings --figures docs/figures

PITFALL := --noise 0.8 --sampling poisson --rate 0.001 --steps 10000
pictures: $(VENV)/.installed-cli,plot ## set up, then draw the pictures of the start page, docs/risk.md and docs/answers.md
	@$(BIN)/tightrope contrast $(PITFALL) --delta 1e-6 --brief --plot docs/figures/pitfall.svg
	@$(BIN)/tightrope risk $(PITFALL) --relation add-or-remove --brief --plot docs/figures/risk.svg
	@$(BIN)/tightrope noise --records 60000 --batch 256 --epochs 30 --sampling poisson --relation add-or-remove \
	  --epsilon 3 --delta 1e-5 --brief --plot docs/figures/noise.svg

adaptivity: $(VENV)/.installed-cli ## set up, then write docs/findings/adaptivity.md: what it costs to choose steps on the way (some minutes)
	@$(BIN)/python examples/adaptivity.py --out docs/findings

statements: $(VENV)/.installed-cli,statement ## set up, then render the examples of docs/statements.md
	@mkdir -p docs/statements
	@for pair in statement:digits laplace_release:visits; do \
	  for kind in json:json md:md latex:tex registry:yaml; do \
	    $(BIN)/tightrope statement examples/$${pair%%:*}.toml --format $${kind%%:*} > docs/statements/$${pair##*:}.$${kind##*:} || exit 1; \
	  done; done
	@$(BIN)/tightrope schema > docs/tightrope-statement-2.schema.json

training: $(VENV)/.installed-training ## set up torch and the training libraries, so that no test of an integration is skipped

# One thread for each of two processes: more would wait for each other, a third longer where torch trains.
# Bytecode is kept even if the environment says no: both would compile all tests again, and every command they start the package.
test: $(VENV)/.installed-test ## set up, then lint, format check, types and tests
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n 2 --dist loadfile

N ?= 2000
SEED ?= 0
HOURS ?=
fuzz: $(VENV)/.installed-test ## set up, then ask N random questions (or as many as fit into HOURS) and judge the answers
	@$(BIN)/python -m fuzz $(if $(HOURS),--hours $(HOURS),--n $(N)) --seed $(SEED) --out fuzz-$(SEED).jsonl

# The wheel and the tests meet in an empty folder: what only works inside the source tree fails there.
WHEEL_TESTS ?= tests
wheel: $(BIN)/python ## build the wheel, install it into an environment of its own and run the tests outside the source tree
	rm -rf dist $(VENV)-wheel
	$(PIP) wheel --no-deps --wheel-dir dist .
	$(PYTHON) -m venv $(VENV)-wheel
	$(VENV)-wheel/bin/python -m pip --quiet --disable-pip-version-check install "$$(ls $(CURDIR)/dist/*.whl)[test]"
	rm -rf $(VENV)-wheel/outside && mkdir $(VENV)-wheel/outside
	cp -R tests reproduction fuzz examples benchmarks docs conftest.py pyproject.toml README.md CHANGELOG.md $(VENV)-wheel/outside
	cd $(VENV)-wheel/outside && ../bin/python -m pytest -n 2 --dist loadfile $(WHEEL_TESTS)

bench: $(VENV)/.installed-bench ## set up, then time Tightrope and its peers side by side
	@$(BIN)/python benchmarks/side_by_side.py
	@echo
	@$(BIN)/python benchmarks/allocation.py --quick
	@echo
	@$(BIN)/python benchmarks/scaling.py --quick
	@echo
	@$(BIN)/python benchmarks/calibration.py
	@echo
	@$(BIN)/python benchmarks/training_loop.py
	@echo
	@$(BIN)/python benchmarks/monte_carlo.py

scaling: $(VENV)/.installed-bench,plot ## set up, then time Tightrope and its peers against steps, rate and delta: docs/figures/scaling.png
	@$(BIN)/python benchmarks/scaling.py --plot

SITE := build/site
docs: $(VENV)/.installed-cli,docs ## set up, then print the theorem table into docs/theorems.md and build the site into build/site
	@$(BIN)/tightrope theorems --markdown > $(VENV)/theorems.md
	@mv $(VENV)/theorems.md docs/theorems.md
	@rm -rf build/explorer && mkdir -p build/explorer
	@if $(BIN)/tightrope explore --help > $(VENV)/explore-help 2>&1; then \
	  $(BIN)/tightrope explore --export build/explorer/explorer.html; fi
	@$(BIN)/sphinx-build -q -W --keep-going -c docs -d build/doctrees . $(SITE)
	@$(BIN)/python docs/check_site.py $(SITE)

clean: ## remove the virtual environment, caches and builds
	rm -rf $(VENV) $(VENV)-wheel .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
	find src reproduction fuzz tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} +

# One stamp per set of extras: set-up is current while the stamp is newer than pyproject.toml.
$(VENV)/.installed-%: pyproject.toml | $(BIN)/python
	@echo "Installing tightrope[$*] into $(VENV)" >&2
	@$(PIP) install --editable '.[$*]'
	@touch $@

# torch before whatever wants one, so that its version is ours
$(VENV)/.installed-training: pyproject.toml | $(BIN)/python
	@echo "Installing $(TORCH) and tightrope[training] into $(VENV)" >&2
	@$(PIP) install $(TORCH)
	@$(PIP) install --editable '.[training]'
	@touch $@

# A venv without pip is half made and would look finished next time: remove it.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Tightrope needs Python 3.11 or newer: make PYTHON=python3.12")'
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "python -m venv failed: install the venv module of $(PYTHON)" >&2; exit 1; }
