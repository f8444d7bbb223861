# Everything a newcomer or CI needs. Python >= 3.11 and g++ are the only system packages.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

# nbval brings jsonschema, which takes four seconds of a processor to import, in each process of a run.
PYTEST := $(BIN)/pytest -p no:nbval
# In the order of tests/conftest.py: pytest-xdist puts files of few tests last, and some of them take longest.
BY_FILE := --dist loadfile --no-loadscope-reorder
# Bytecode is kept, whatever the person's shell says: without it each process compiles all of the tests again.
unexport PYTHONDONTWRITEBYTECODE
# IPython warns where another environment is active than the one it runs in, and warnings are errors of the tests.
unexport VIRTUAL_ENV
IN_BROWSER = WORKBENCH_OLDER_JUPYTER=$(CURDIR)/$(VENV)/older/bin/python $(PYTEST) tests/browser -rs

.PHONY: help demo lab test check lint everything sweep browser in-the-browser had-for-the-browser notebooks sample assets format clean
.DEFAULT_GOAL := help

help:
	@echo "make demo    install into .venv and optimise sample_ops/softmax.py; writes out/"
	@echo "make lab     open the first notebook in JupyterLab"
	@echo "make test    everything CI runs: lint, types, layers, tests, notebooks"
	@echo "make check   lint, types and the layer test only"
	@echo "make everything  all tests: slow ones, every case"
	@echo "make sweep   run many generated kernels on the emulator, read many plans; ten minutes and more"
	@echo "make browser drive the panel in a real browser, as make test does, in every case and with every test of its own shown"
	@echo "make assets  build the panel and the editor from workbench/views/src (needs node and npm)"
	@echo "make format  reformat the code"

$(VENV)/python-ok:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Python 3.11 or newer is needed; set PYTHON=/path/to/python3.11"; exit 1; }
	@command -v g++ >/dev/null || { echo "g++ is needed (Debian: apt-get install g++)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/installed: $(VENV)/python-ok pyproject.toml constraints.txt extension/labextension/sources.json
	$(PIP) -e .
	@touch $@

$(VENV)/installed-lab: $(VENV)/installed
	$(PIP) -e '.[lab]'
	@touch $@

# pip asks for one package after the other, half a second each: three of them take a third of the known ones each.
# What is missing then, or of another version, is got as ever. Nothing is compiled ahead: three modules in four are
# never imported, and it takes 40 s.
$(VENV)/installed-dev: $(VENV)/python-ok pyproject.toml constraints.txt extension/labextension/sources.json
	@for third in 0 1 2; do \
	  grep -v '^#' constraints.txt | awk "NR % 3 == $$third" > $(VENV)/third-$$third.txt; \
	  $(PIP) --no-compile --no-deps -r $(VENV)/third-$$third.txt 2>/dev/null & \
	done; wait
	$(PIP) --no-compile -e '.[dev]'
	@touch $(VENV)/installed $@

demo: $(VENV)/installed
	$(BIN)/workbench demo --out out

lab: $(VENV)/installed-lab
	$(BIN)/jupyter lab notebooks/01_first_kernel.ipynb

check: lint
	$(PYTEST) tests/test_layers.py

lint: $(VENV)/installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# The browsers keep a core busy, and the other parts come beside them in turn: three parts at once took 305 s, two
# take 264. For tests too two processes are as fast as three or faster, by a tenth where they compute. One that dies
# ends the run: pytest-xdist waits for ever when it replaces it.
# What the emulator needs once, ten seconds of a compiler, is built once for all the parts.
test: export WORKBENCH_SUITE_CACHE := $(CURDIR)/$(VENV)/cache-of-tests
test:
	$(MAKE) -j 2 --output-sync=target $(VENV)/installed-dev had-for-the-browser
	rm -rf $(WORKBENCH_SUITE_CACHE)
	$(MAKE) -j 2 --output-sync=target in-the-browser lint notebooks sample
	$(PYTEST) tests -n 2 $(BY_FILE) --max-worker-restart 0

notebooks: $(VENV)/installed-dev
	$(if $(WORKBENCH_SUITE_CACHE),WORKBENCH_CACHE=$(WORKBENCH_SUITE_CACHE)) $(BIN)/pytest --nbval-lax notebooks

sample: $(VENV)/installed-dev
	$(PYTEST) tests/playbook/test_random_graphs.py -m sweep -n 2 --max-worker-restart 0

everything: $(VENV)/installed-dev
	$(PYTEST) tests -n 3 $(BY_FILE) --max-worker-restart 0 --every-case -m 'not browser and not gpu and not sweep'

sweep: $(VENV)/installed-dev
	$(PYTEST) tests/playbook tests/plan -m sweep

# Notebook 7 and ipykernel 6 beside what is installed: a second environment that sees the first.
$(VENV)/installed-older: $(VENV)/installed-dev
	$(BIN)/python -m venv --without-pip $(VENV)/older
	$(BIN)/python -c "import pathlib, sysconfig as s; print(s.get_path('purelib')); print(pathlib.Path.cwd())" \
	  > $(VENV)/older/lib/python$$($(BIN)/python -c 'import sys; print("%d.%d" % sys.version_info[:2])')/site-packages/inherit.pth
	$(BIN)/python -m pip --python $(VENV)/older/bin/python install --quiet --disable-pip-version-check \
	  --no-compile --ignore-installed --no-deps "notebook==7.6.5" "ipykernel==6.31.0"
	@# CUDA's libraries are looked for in an environment's own folder only.
	cd $(VENV)/older/lib/python*/site-packages && ln -sfn ../../../../lib/$$(basename $$(dirname $$PWD))/site-packages/nvidia nvidia
	@touch $@

# Beside pip, which leaves a core idle; where it cannot be had, in-the-browser says so.
had-for-the-browser:
	@tests/browser/tools.sh 2>/dev/null || true

# Chromium and its driver are had where they can be (tests/browser/tools.sh); where not, one line says so.
in-the-browser: $(VENV)/installed-dev
	@if tests/browser/tools.sh; then $(IN_BROWSER) -m "browser and not slow" -n 4 --dist loadgroup; fi

browser: $(VENV)/installed-older
	@tests/browser/tools.sh
	$(IN_BROWSER) -m browser -s --every-case

# The built files are committed: nobody needs node to use or to install the workbench.
assets:
	cd workbench/views/src && npm ci --ignore-scripts && node build.mjs
	cd extension && npm ci --ignore-scripts && PATH="$(CURDIR)/$(BIN):$$PATH" npm run build

format: $(VENV)/installed-dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) out
