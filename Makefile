# Everything runs in .venv, which is made on first use; all it takes is make and Python 3.11 or newer.
#   make demo                      race on fields of arXiv papers, which come along, into runs/demo
#   make demo-scratch              the same task without a pretrained model: scratch and TLM, into runs/demo-scratch
#   make demo ARGS="--dry-run"     the same with further options and settings of `acclimate race`
#   make test ARGS="-k masking"    the tests, or those that pytest's options pick
#   make torture                   faults in numbers: kills, full disks, lost power, damaged files; ARGS="--part power"
#   make bench                     is this tree slower than the commit it began from? ARGS="--base main --only predict"
#   make lint                      ruff, mypy
#   make docs                      the documentation as a site, in build/docs
#   make lowest                    some tests with the lowest versions that pyproject.toml declares, in .venv-lowest
#   make dist                      wheel and source archive in dist/, checked; the README's commands with the wheel alone
#   make settings                  write docs/settings.md and api/settings.json of the recipes again
#   make clean                     remove .venv and caches; runs/ stays
PYTHON ?= python3
ARGS ?=
BIN := .venv/bin

.PHONY: demo demo-scratch test torture bench lint docs lowest dist settings clean
.NOTPARALLEL:

# Ten minutes on two cores are the aim; 12 were measured on an AMD EPYC without AVX-512. All contestants have the same
# steps, five adaptations and seeds. What was tried before, on another split of the papers:
# docs/evidence/embedded.md.
ADAPTING := epochs=0 max_tokens=128 plan.steps=64 plan.batch=16 plan.rate=4e-4
demo: .venv/made-for-demo
	$(BIN)/acclimate race arxiv --out runs/demo --budget none --max-tokens 64 --workers 2 seeds=5 adapt_seeds=5 \
	  finetune.epochs=4 finetune.looks=1 'contestants=["TAPT", "DAPT", "TF-IDF"]' $(ADAPTING:%=tapt.%) $(ADAPTING:%=dapt.%) $(ARGS)

demo-scratch: .venv/made-for-demo
	$(BIN)/acclimate race arxiv --model scratch --general src/acclimate/data/arxiv/abstracts.parquet --budget none \
	  --out runs/demo-scratch --max-tokens 64 --workers 2 seeds=3 'contestants=["TAPT", "TLM", "TF-IDF"]' $(ARGS)

# A worker a core; --dist loadfile keeps a file's tests together, so that its costly fixtures are made once. Reordered by how
# many tests they have, the files with few that take long would come last and leave a core idle.
test: .venv/made-for-test
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m "not slow" $(ARGS)

# An hour on two cores; ARGS="--tenth --seed 0", or --state FILE to go on later. docs/reliability.md has the rows.
torture: .venv/made-for-test
	cd tests && ../$(BIN)/python -m torture $(ARGS)

bench: .venv/made-for-test
	$(BIN)/python benchmarks/paired.py $(ARGS)

lint: .venv/made-for-lint
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

docs: .venv/made-for-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

# torch goes first, as below, and what only its CUDA builds need is left out. Old versions warn where newer ones are installed.
LOWEST := tests/test_start.py tests/models/test_encoder.py tests/models/test_heads.py tests/text/test_corpus.py \
  tests/text/test_filters.py tests/text/test_vocabulary.py tests/methods/test_baselines.py tests/methods/test_finetune_lora.py \
  tests/methods/test_mlm.py tests/training/test_row_attention.py
lowest:
	$(PYTHON) -m venv --clear .venv-lowest
	.venv-lowest/bin/python -m pip install --quiet "$$(grep '^torch==' constraints.txt)" uv setuptools
	.venv-lowest/bin/uv pip compile --quiet --resolution lowest-direct --extra lora --extra onnx \
	  --python-version 3.11 --only-binary :all: pyproject.toml -o .venv-lowest/all.txt
	grep -E '^[a-z]' .venv-lowest/all.txt | grep -vE '^(torch=|nvidia|cuda|triton)' > .venv-lowest/versions.txt
	.venv-lowest/bin/python -m pip install --quiet --no-deps -r .venv-lowest/versions.txt
	.venv-lowest/bin/python -m pip install --quiet "pytest>=8,<10" setuptools
	.venv-lowest/bin/python -m pip install --quiet --no-deps --no-build-isolation -e .
	.venv-lowest/bin/python -m pytest -o filterwarnings= $(LOWEST) $(ARGS)

# The tools have an environment of their own, so that the other holds what the wheel asks for and nothing else.
dist: .venv/made-for-test
	rm -rf dist build/lib build/bdist* .venv-dist
	$(PYTHON) -m venv .venv-dist/tools
	.venv-dist/tools/bin/python -m pip install --quiet "build>=1.2" "twine>=6" "setuptools>=77"
	.venv-dist/tools/bin/python -m build --no-isolation --outdir dist
	.venv-dist/tools/bin/python -m twine check --strict dist/*
	$(PYTHON) -m venv .venv-dist/alone
	.venv-dist/alone/bin/python -m pip install --quiet "$$(grep '^torch==' constraints.txt)" -c constraints.txt
	.venv-dist/alone/bin/python -m pip install --quiet dist/*.whl -c constraints.txt
	ACCLIMATE_WHEEL="$(CURDIR)/.venv-dist/alone/bin/python" $(BIN)/python -m pytest -m slow tests/test_wheel.py $(ARGS)

settings: .venv/made-for-lint
	$(BIN)/python -c "from acclimate.cli.settings import write; write()"

clean:
	rm -rf .venv .venv-lowest .venv-dist build dist .pytest_cache .mypy_cache .ruff_cache
	find src tests -name __pycache__ -prune -exec rm -rf {} +

.venv/made-for-test: EXTRA := [test]
.venv/made-for-lint: EXTRA := [dev]
.venv/made-for-docs: EXTRA := [docs]

# `whole` is absent while pip works: an install that was cut short is started over from nothing.
# torch goes first and alone: as a range, or asked for by another package, it may come as gigabytes of CUDA.
# setuptools_scm: seqeval, which the tests compare entity F1 with, is built from source and fetches a broken one by itself.
.venv/made-for-%: pyproject.toml constraints.txt
	@test ! -L .venv || { echo "make: .venv is a link, and making it here would empty where it leads: remove the link" >&2; exit 1; }
	@test -e .venv/whole || $(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("acclimate needs Python 3.11 or newer: make PYTHON=python3.12 ...")'
	@test -e .venv/whole || $(PYTHON) -m venv --clear .venv
	@rm -f .venv/whole
	$(BIN)/python -m pip install --quiet "$$(grep '^torch==' constraints.txt)" -c constraints.txt
	$(BIN)/python -m pip install --quiet setuptools setuptools_scm -c constraints.txt
	$(BIN)/python -m pip install --quiet --no-build-isolation -e ".$(EXTRA)" -c constraints.txt
	@touch .venv/whole $@
