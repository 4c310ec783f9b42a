# Every target bootstraps what it needs on a fresh machine with Python (>= 3.11) and make.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.ready

.PHONY: demo demo-cloud demo-machines demo-fence test test-cluster test-machines test-plugins check audit soak mutation bench assets test-real test-kubelet e2e setup lock docs man dist krew image clean tools stateful

PROTOS := $(wildcard src/mooring/*/proto/*.proto)

# An editable install also generates modules from the protos.
$(STAMP): requirements/dev.txt pyproject.toml hatch_build.py $(PROTOS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Mooring needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V)" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo "python3 -m venv failed: apt-get install python3-venv" >&2; exit 1; }
	@echo "setting up $(VENV) ..."
	@$(BIN)/pip install -q --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@$(BIN)/pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

setup: $(STAMP)

# A missing system tool is named in one line with the Debian package that has it.
tools:
	@missing=; need() { command -v $$1 >/dev/null 2>&1 || [ -x /sbin/$$1 ] || [ -x /usr/sbin/$$1 ] || missing="$$missing $$1($$2)"; }; \
	need mount mount; need losetup mount; need blkid util-linux; need unshare util-linux; need nsenter util-linux; \
	need mkfs.ext4 e2fsprogs; need fsck.ext4 e2fsprogs; \
	[ -z "$$missing" ] || { echo "missing system tools, each with its Debian package:$$missing" >&2; exit 1; }

demo: $(STAMP) tools
	@$(BIN)/mooring demo

demo-cloud: $(STAMP) tools
	@$(BIN)/mooring demo --cloud

# The same stories, and a fourth, on machines with a kernel of their own.
demo-machines: $(STAMP) tools
	@$(BIN)/mooring demo --machines uml

# Nodes that are lost at night, on machines with a kernel of their own: each is fenced by its BMC or power strip.
demo-fence: $(STAMP) tools
	@$(BIN)/mooring demo --machines uml --fence

# Everything but what needs clusters of real processes (test-cluster), the real Kubernetes beside it (test-real), or machines
# (test-machines). In as many processes as there are CPUs, each with mounts of its own (tests/conftest.py).
test: $(STAMP) tools
	@$(BIN)/pytest -q --ignore tests/real --ignore tests/kubelet --ignore tests/machines --ignore tests/root/machines -m "not cluster" -n auto

# Stories on clusters of real processes: `mooring up`, what the pages and examples say of it, what is broken and killed in it; and
# the wheel in a bare Debian (tests/install/test_bare_debian.py).
test-cluster: $(STAMP) tools
	@$(BIN)/pytest -q tests/cluster tests/testing tests/install -m cluster -n auto

# Machines with a kernel of their own: some quarter of an hour; what this host lacks for them is said, and they are skipped.
test-machines: $(STAMP) tools
	@$(BIN)/pytest -q tests/machines tests/root/machines -n 2 --dist loadfile --timeout 600

# Volume plugins for real: servers, targets, disks, drivers and repositories, and pods that use them, and the examples (some twenty minutes).
test-plugins: $(STAMP) tools
	@MOORING_SOAK=1 $(BIN)/pytest -q -n 2 --dist loadfile --timeout 600 tests/machines/test_*_volumes.py tests/machines/test_iscsi_*.py \
	  tests/cluster/test_flexvolume.py tests/cluster/test_examples.py tests/root/test_flexvolume*.py tests/root/test_git_repo_agent.py \
	  tests/cluster/test_in_tree_volumes.py

check: $(STAMP)
	@$(BIN)/ruff format --check src tests
	@$(BIN)/ruff check src tests
	@$(BIN)/pyright
	@$(BIN)/lint-imports --no-cache

# Known weaknesses of the code and of what it depends on, and the modes of a running cluster's files.
audit: $(STAMP) tools
	@scripts/audit

# The real kube-apiserver and its companions, built from pinned Go modules into a per-user cache folder.
assets:
	@scripts/assets

test-real: $(STAMP) tools
	@$(BIN)/pytest -q tests/real -n 2 --dist loadfile

# Real kubelets with containerd and runc, the real control plane, and Mooring's controllers and drivers beside them. With
# ASSETS=oldest all of the oldest Kubernetes that is supported, with ASSETS=skew its kubelets alone.
test-kubelet: $(STAMP) tools
	@scripts/assets $(if $(ASSETS),oldest,kubelet)
	@$(if $(ASSETS),KUBEBUILDER_ASSETS=$${XDG_CACHE_HOME:-$$HOME/.cache}/mooring/assets/$(ASSETS)) $(BIN)/pytest -q tests/kubelet

# Upstream's end-to-end suite against `mooring up`; with E2E="--reduced", ... as tests/e2e/__main__.py says.
e2e: $(STAMP) tools
	@scripts/assets e2e
	@$(BIN)/python -m tests.e2e $(E2E)

bench: $(STAMP)
	@$(BIN)/python -m benchmarks.apiserver
	@$(BIN)/python -m benchmarks.pod_start
	@$(BIN)/python -m benchmarks.simulation
	@$(BIN)/python -m benchmarks.attach_detach
	@$(BIN)/python -m benchmarks.binding
	@$(BIN)/python -m benchmarks.csi_attacher
	@$(BIN)/python -m benchmarks.ebs_attach
	@$(BIN)/python -m benchmarks.fencing_idle 400
	@$(BIN)/python -m benchmarks.real_kubelets --rounds 3 --volumes 30
	@$(BIN)/python -m benchmarks.lost_node --rounds 3
	@$(BIN)/python -m benchmarks.machines --rounds 1 namespace uml

# The long rounds; with SEEDS=N also so many seeds of the simulation, which go on where they were stopped.
soak: $(STAMP) tools
	@MOORING_SOAK=1 $(BIN)/pytest -q -m soak --timeout 3600
	@[ -z "$(SEEDS)" ] || $(BIN)/mooring simulate run --seeds $(SEEDS) --resume soak-out --store soak-out

# Mutants drawn by chance, judged by simulator and unit tests; with MUTATION="--count 40 --rooms ebs", ... as
# tests/mutation says. What was judged is kept in mutation-out.
mutation: $(STAMP) tools
	@$(BIN)/python -m tests.mutation --resume mutation-out $(MUTATION)

# The documentation as a site, build/site/index.html: it is read without a network (docs/index.md).
docs: $(STAMP)
	@scripts/docs

# A man page for each command, in build/man; `make dist` puts them into the wheel.
man: $(STAMP)
	@$(BIN)/python -m scripts.docs_site man build/man

# The source distribution and the wheel, in dist/.
dist: man
	@rm -f dist/mooring-*.whl dist/mooring-*.tar.gz
	@$(BIN)/python -m hatchling build -d dist
	@$(BIN)/twine check --strict dist/mooring-*.whl dist/mooring-*.tar.gz

# What krew installs `kubectl mooring` from, in dist/: the archive, and the manifest, which says that it lies at KREW.
krew: dist
	@$(BIN)/python deploy/krew/build dist/mooring-*.whl --uri $(or $(KREW),https://example.com/kubectl-mooring.tar.gz)

# The image of deploy/, as an OCI archive; with IMAGE="--name registry.example.com/mooring:1", ... as deploy/image/build says.
image: $(STAMP)
	@deploy/image/build $(IMAGE)

# Refreshes the pinned, hash-checked requirements from pyproject.toml: what the image and krew's plugin have follows what is developed with.
lock: $(STAMP)
	@$(BIN)/pip install -q --disable-pip-version-check uv
	@for group in dev audit docs; do \
	  $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
	    --group $$group $$([ $$group = dev ] && echo pyproject.toml) -o requirements/$$group.txt || exit 1; done
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
	  --constraints requirements/dev.txt pyproject.toml -o requirements/run.txt

# Real stateful sets under faults that a seed draws; STATEFUL="--set etcd --minutes 10 --seed 1", ... as
# tests/machines/stateful says.
STATEFUL ?= --set etcd
stateful: $(STAMP) tools
	@$(BIN)/python -m tests.machines.stateful $(STATEFUL)

clean:
	@rm -rf $(VENV) build dist .pytest_cache .ruff_cache demo-out soak-out mutation-out
