# Each target does its own set-up: a clean clone, Python >= 3.11 with venv, and make are enough.
PYTHON ?= python3
VENV := .venv
INTEGRATIONS := .venv-integrations
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1
unexport PYTHONDONTWRITEBYTECODE  # each of hundreds of processes would compile all that it imports

.PHONY: demo docs docs-execute test tests test-slow test-models test-integrations lint bench bench-audit planted pictures format clean

demo: $(VENV)/installed
	@$(BIN)/tiltlens demo --report compas-report.html

docs: $(VENV)/installed-docs  # the site, in docs/_build/html; warnings are errors, nothing is fetched
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet docs docs/_build/html
	@echo "The site is docs/_build/html/index.html" >&2

docs-execute: $(VENV)/installed-dev  # runs the code of every page, and writes into it what that prints and draws
	$(BIN)/python scripts/execute_docs.py

test: $(VENV)/installed-dev  # both at once: tests wait at times for a browser or for Spark
	@$(MAKE) --no-print-directory -j2 lint tests

tests: $(VENV)/installed-dev  # three workers on two cores, for the same reason; what all import is compiled once, before
	@$(BIN)/python -m pytest --collect-only --quiet >/dev/null 2>&1 || true
	POLARS_MAX_THREADS=1 OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses 3 --no-loadscope-reorder --durations 25

test-slow: $(VENV)/installed-dev
	POLARS_MAX_THREADS=1 OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -m slow --numprocesses 2 --durations 15

test-models: $(VENV)/installed-boosters  # model files of XGBoost, LightGBM and CatBoost
	$(BIN)/python -m pytest -m boosters tests/model_files

test-integrations: $(INTEGRATIONS)/installed  # MLflow's evaluator, with a local file store
	$(INTEGRATIONS)/bin/python -m pytest -m integration tests/integrations/test_mlflow_evaluator.py

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/installed-bench  # minutes: times and their limits, with the peers, fairlearn and shap
	$(BIN)/python -m benchmarks

bench-audit: $(VENV)/installed-dev  # minutes to hours: streams, reports, coverage
	$(BIN)/python -m benchmarks.stream
	$(BIN)/python -m benchmarks.stream --fitted --rows 1000000 10000000
	$(BIN)/python -m benchmarks.report
	$(BIN)/python -m benchmarks.coverage --repetitions 200 --jobs 2
	$(BIN)/python -m benchmarks.repair_coverage evaluations
	$(BIN)/python -m benchmarks.repair_coverage alternatives --repetitions 100
	$(BIN)/python -m benchmarks.repair_coverage what-ifs

planted: $(VENV)/installed-dev  # an hour: planted proxies, ours and the peers, each in an environment of its own in .planted
	$(BIN)/python -m planted_proxies --seeds 20 --others 5 --rows 5000 --require tiltlens \
	  --page docs/planted_proxies.md --figure docs/img/planted_proxies.svg

pictures: $(VENV)/installed-dev  # of the docs and the README; needs chromium
	$(BIN)/python scripts/make_figures.py
	$(BIN)/python scripts/make_screenshots.py

format: $(VENV)/installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "tiltlens needs Python 3.11 or newer; try: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 2; }
	@echo "Making a virtual environment in $(VENV) ..." >&2
	@$(PYTHON) -m venv $(VENV)

$(VENV)/installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "Installing tiltlens ..." >&2
	@$(BIN)/python -m pip install --quiet --no-compile -c constraints.txt -e '.[report]'
	@touch $@

$(VENV)/installed-docs: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "Installing tiltlens and what builds its site ..." >&2
	@$(BIN)/python -m pip install --quiet --no-compile -c constraints.txt -e '.[docs]'
	@touch $(VENV)/installed $@

$(VENV)/installed-dev: pyproject.toml constraints.txt | $(VENV)/bin/python  # Spark has no wheel: one is made beside the rest
	@echo "Installing tiltlens and its development tools ..." >&2
	@$(BIN)/python -m pip wheel --quiet --no-deps -c constraints.txt -w $(VENV)/wheels pyspark & \
	  $(BIN)/python -m pip install --quiet --no-compile -c constraints.txt -e '.[dev-without-spark]' && wait $$!
	@$(BIN)/python -m pip install --quiet --no-compile -c constraints.txt --find-links $(VENV)/wheels 'pyspark[connect]'
	@rm -r $(VENV)/wheels
	@touch $(VENV)/installed $(VENV)/installed-docs $@

$(VENV)/installed-boosters: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "Installing tiltlens, its development tools, XGBoost, LightGBM and CatBoost ..." >&2
	@$(BIN)/python -m pip install --quiet --no-compile -c constraints.txt -e '.[dev,boosters]'
	@touch $(VENV)/installed $(VENV)/installed-dev $@

$(INTEGRATIONS)/installed: pyproject.toml constraints-integrations.txt
	@echo "Installing tiltlens and MLflow in $(INTEGRATIONS) ..." >&2
	@$(PYTHON) -m venv $(INTEGRATIONS)
	@$(INTEGRATIONS)/bin/python -m pip install --quiet --no-compile -c constraints-integrations.txt \
	  -e '.[report,integrations]' hypothesis pytest
	@touch $@

$(VENV)/installed-bench: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "Installing tiltlens, its development tools and the peers it is measured against ..." >&2
	@$(BIN)/python -m pip install --quiet --no-compile -c constraints.txt -e '.[dev,bench]'
	@touch $(VENV)/installed $(VENV)/installed-dev $@

clean:
	rm -rf $(VENV) $(INTEGRATIONS) .planted planted-results .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache docs/_build docs/api
