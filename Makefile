# `make serve` and `make test` need Python 3.11 or newer and, for the web app, Node.js 22.12 or newer (or 20.19 to 20.x); they install the rest.

PYTHON ?= python3
UV = $(shell command -v uv || echo $(CURDIR)/.cache/uv/bin/uv)
RUN = $(UV) run --no-sync --quiet
DATABASE ?= sqlite:///memorist.db
HOST ?= 127.0.0.1
PORT ?= 7700
DATA ?= ../shared/bench
BENCH ?= ../shared/bench
OUT ?= .cache/encoder
PROJECTS = pyproject.toml $(wildcard packages/*/pyproject.toml)
MCP_PACKAGES = suites
# Without bytecode files, each of the hundreds of test processes would compile every module again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: serve site docs dist release test test-all test-cluster test-h2 test-oracle check generate audit screens pictures chaos attack test-container test-llm bench soak bench-recall learn train-encoder train-reader setup tests test-tools node mcp-packages system-packages deployment-tools uv pytest test-page test-site client pytest-cache clean help

help: ## List the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

serve: setup ## Run the server and the web app; set HOST, PORT and DATABASE to change the defaults
	@.venv/bin/python scripts/build_site.py --if-possible
	@exec .venv/bin/memorist serve --host $(HOST) --port $(PORT) --database $(DATABASE) $(ARGS)

site: setup ## Build the web app into the package (needs Node.js 22.12 or newer (or 20.19 to 20.x))
	@.venv/bin/python scripts/build_site.py

test: ## Run the test suite, on SQLite and PostgreSQL, and in a browser
	@$(MAKE) --no-print-directory --jobs 5 test-page test-tools client pytest-cache  # most of the time is spent waiting for the network
	@$(MAKE) --no-print-directory --jobs 2 pytest test-site

test-all: MCP_PACKAGES = clients
test-all: test-tools deployment-tools site client ## Run every test on every database, including the slow ones
	ENGINES=all CHAOS=full $(RUN) pytest -m "" -n 3 --maxschedchunk 32 --timeout 1800 $(ARGS)

check: test-tools site ## Check lint, format, types and generated files
	$(RUN) ruff check .
	$(RUN) ruff format --check .
	$(RUN) mypy
	$(RUN) python scripts/generate_aio.py --check
	$(RUN) python scripts/generate_commands.py --check
	$(RUN) python scripts/generate_docs.py --check
	$(RUN) python scripts/generate_web.py --check
	$(RUN) python scripts/set_version.py --check
	$(RUN) python scripts/build_site.py run check
	$(RUN) python scripts/build_site.py run check-client
	$(RUN) python scripts/build_site.py client check
	$(MAKE) docs

docs: tests ## Build the documentation site into .cache/site and check its links
	@$(UV) sync --frozen --quiet --inexact --group docs
	$(RUN) zensical build --strict

generate: tests site ## Write the generated files again
	$(RUN) python scripts/generate_aio.py
	$(RUN) python scripts/generate_commands.py
	$(RUN) python scripts/generate_docs.py
	$(RUN) python scripts/generate_web.py
	$(RUN) python scripts/set_version.py

audit: tests ## Check every feature of the memory designs that memorist is based on: ARGS="--only journal --database URL"
	$(RUN) python scripts/audit_designs.py $(ARGS)

screens: test-tools site ## Take screenshots of every page into .cache/screens: both themes, wide and narrow
	SCREENS=full $(RUN) pytest -m "" -n 2 tests/web $(ARGS)

pictures: test-tools site ## Take the pictures of the documentation into docs/images
	$(RUN) python scripts/take_pictures.py

test-cluster: test-tools ## Run the tests of storage, isolation and crashes on a database or cluster and delete its rows: CLUSTER=postgresql://…
	MEMORIST_TEST_DATABASE='$(or $(CLUSTER),$(error Name the database, which loses all its rows: make test-cluster CLUSTER=postgresql://…))' $(RUN) pytest -m "" -n 0 -k modern tests/storage/test_contract.py tests/test_every_kind.py tests/test_isolation.py tests/storage/test_citus.py tests/chaos $(ARGS)

test-h2: deployment-tools ## Run the tests of storage and kinds on H2 in Oracle mode
	ENGINES=h2 $(RUN) pytest -m "" -n 2 --timeout 1800 tests/kinds tests/storage/test_contract.py tests/storage/test_copy.py tests/storage/test_erase.py tests/test_every_kind.py packages/memorist-oracle $(ARGS)

test-oracle: tests ## Run the tests of storage and kinds on an Oracle server and delete its rows: ORACLE=oracle://…
	MEMORIST_TEST_ORACLE='$(or $(ORACLE),$(error Name the database, which loses all its rows: make test-oracle ORACLE=oracle://USER:PASSWORD@HOST/SERVICE))' $(RUN) pytest -m "" -n 0 tests/storage/test_contract.py tests/test_every_kind.py $(ARGS)

chaos: test-tools ## Run the long crash tests: killed processes, power cuts, crashed servers (about ten minutes)
	CHAOS=full $(RUN) pytest -m "" -n 0 tests/chaos $(ARGS)

attack: test-tools ## Send malicious input to every endpoint, then run sqlmap and bandit (about half an hour)
	ATTACK=full $(RUN) pytest -m "" -n 2 --timeout 1800 tests/security $(ARGS)
	$(RUN) python scripts/attack.py

test-container: deployment-tools ## Execute the Containerfiles in a clean Debian and run the image (needs root, ten minutes), then test the chart and the compose file
	UV=$(UV) $(RUN) python scripts/check_container.py $(ARGS)
	$(RUN) pytest -m "" -n 0 --timeout 1800 tests/deploy

test-llm: tests ## Run the tests with a real language model (the first run downloads 1.1 GB)
	$(RUN) python scripts/real_model.py $(ARGS)

bench: test-tools ## Run the benchmarks: ARGS="--quick --only window"
	@$(UV) sync --frozen --quiet --inexact --group bench
	$(RUN) python -m bench $(ARGS)

soak: tests ## Run a server under load for five minutes (or ARGS=3600 seconds) and check that it does not grow
	$(RUN) python -m bench.soak $(ARGS)

learn: tests ## Train the search weights; DATA is the folder with the development files
	$(RUN) python -m bench.learn $(DATA) $(ARGS)

train-encoder: tests ## Train the sentence encoder into the folder OUT (scripts/train_encoder.py explains DATA and BENCH); without a GPU: ARGS="--device cpu"
	@$(UV) sync --frozen --quiet --inexact --group train
	$(RUN) python scripts/train_encoder.py prepare $(DATA) $(BENCH) $(OUT)/prepared
	$(RUN) python scripts/train_encoder.py train $(OUT)/prepared $(OUT) $(ARGS)

train-reader: tests ## Train the fact reader and write it to OUT (scripts/train_reader.py explains DATA); on a CPU, pass ARGS="--device cpu"
	@$(UV) sync --frozen --quiet --inexact --group train
	PYTHONPATH=scripts $(RUN) python scripts/train_reader.py prepare $(DATA) $(OUT)/prepared
	for seed in 1 2 3 4 5 6; do PYTHONPATH=scripts $(RUN) python scripts/train_reader.py train $(OUT)/prepared $(OUT) --seed $$seed $(ARGS) || exit 1; done
	PYTHONPATH=scripts $(RUN) python scripts/train_reader.py join $(OUT)/prepared $(OUT) $(ARGS)

bench-recall: tests ## Measure search with `memorist eval`; DATA is a benchmark file or a folder of them, ARGS more options
	$(RUN) memorist eval $(or $(wildcard $(DATA)/*.json.gz),$(DATA)) --out .cache/eval $(ARGS)

uv:
	@test -x $(UV) || { $(PYTHON) -m venv .cache/uv && .cache/uv/bin/pip install --quiet 'uv>=0.9'; }

setup: .cache/ready

.cache/ready: $(PROJECTS) uv.lock | uv
	@$(UV) sync --frozen --quiet --inexact --no-dev
	@mkdir -p .cache && touch .cache/ready

tests: .cache/ready-tests

.cache/ready-tests: $(PROJECTS) uv.lock | uv
	@$(UV) sync --frozen --quiet --inexact --all-extras --group frameworks
	@mkdir -p .cache && touch .cache/ready .cache/ready-tests

test-tools: tests mcp-packages system-packages ## Install the tools that the tests need besides Python packages

node: uv
	@UV=$(UV) PYTHON=$(PYTHON) bash scripts/test_tools.sh node

mcp-packages: node
	@bash scripts/test_tools.sh $(MCP_PACKAGES)

system-packages:
	@bash scripts/test_tools.sh packages

deployment-tools: tests node
	@bash scripts/test_tools.sh deployment
	@$(UV) sync --frozen --quiet --inexact --all-extras --group frameworks --group deploy

pytest: tests
	$(RUN) pytest -n 4 --maxschedchunk 32 --durations 50 --durations-min 1 $(ARGS)

test-page: node
	@$(PYTHON) scripts/build_site.py

test-site: site
	$(RUN) python scripts/build_site.py run test

client: node ## Build the TypeScript client
	@$(PYTHON) scripts/build_site.py client

# Collect once, so that pytest rewrites the assertions of each module once and not in every worker.
pytest-cache: tests
	@$(RUN) pytest --collect-only -qq >/dev/null || true  # the test run reports the problems

dist: setup ## Build every package into dist/: wheels, source distributions and the npm package
	$(RUN) python scripts/release.py --only build

release: test-tools ## Check, build, install and upgrade this version, and tag it (RELEASING.md)
	$(RUN) python scripts/release.py --tag

clean: ## Remove everything that was installed or built
	rm -rf .venv .cache dist web/node_modules clients/typescript/node_modules clients/typescript/dist packages/memorist/src/memorist/server/site .pytest_cache .mypy_cache .ruff_cache .hypothesis
