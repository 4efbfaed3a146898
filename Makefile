# Everything here prepares what it needs by itself: see tests/setup.sh.
#
#   make test PYTHON=python3.12        with another Python (after `make clean`)
#   make install PREFIX=~/.local       somewhere else

PREFIX = /usr/local

export PYTHON
unexport PYTHONDONTWRITEBYTECODE # starts without bytecode are slow, and that would be what is measured

.PHONY: help demo test test-agents test-fresh test-vm lint faults soak docs picture bench install uninstall clean

help: ## show this help
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile | expand -t 20

demo: ## show a session's life: started, killed, found, restarted, stopped
	@sh tests/setup.sh run
	@sh tests/demo.sh

CHECK = .venv/bin/ruff check && .venv/bin/ruff format --check && .venv/bin/mypy

# mypy uses one core; on the other, the bytecode of all tests is made, once and not by each worker.
test: ## check style and types, run all tests
	@sh tests/setup.sh test
	@echo "$(CHECK)"
	@.venv/bin/python -m pytest --collect-only -qq >/dev/null 2>&1 & $(CHECK); status=$$?; wait; exit $$status
	@echo ".venv/bin/python -m pytest -n 6 --dist worksteal"
	@scratch=$$(mktemp -d); \
	TMPDIR=$$scratch .venv/bin/python -m pytest -n 6 --dist worksteal \
		|| { echo "test: the files of failed tests are in $$scratch" >&2; exit 1; }; \
	chmod -R u+rwX "$$scratch"; rm -rf "$$scratch"

test-fresh: ## run all tests in fresh Debian 12 and 13 roots, as root and as users (long; WHAT="12-user …" selects)
	@sh tests/fresh.sh $(WHAT)

test-vm: ## reset a virtual machine (qemu, as root) while sesh writes: nothing is torn or lost (long)
	@sh tests/setup.sh vm
	.venv/bin/python -m tests.vm.run

test-agents: ## run the real Claude Code and Codex, from npm, against a stub of their APIs
	@sh tests/setup.sh agents
	.venv/bin/python -m tests.agents.install
	.venv/bin/python -m pytest tests/agents -m agents

lint: ## check style and types
	@sh tests/setup.sh test
	$(CHECK)

CAMPAIGNS = tests/faults tests/model tests/commands/test_declare.py tests/commands/test_logs.py \
	tests/commands/test_wait.py tests/supervision/test_supervise.py tests/system/test_files.py

faults: ## inject every fault hundreds of times (long)
	@sh tests/setup.sh test
	SESH_TEST_FULL=1 .venv/bin/python -m pytest $(CAMPAIGNS) -q -n 2 --dist worksteal --timeout 3600

soak: ## random commands, kills and gc for SECONDS (900); SEED repeats the choices of a run
	@tests/setup.sh test
	.venv/bin/python -m tests.soak --seconds $(or $(SECONDS),900) $(if $(SEED),--seed $(SEED))

docs: ## generate the manual and the completions from commands and prose
	@sh tests/setup.sh test
	.venv/bin/python -m man.generate

picture: ## draw the README's picture from a real run
	@sh tests/setup.sh test
	.venv/bin/python -m tests.picture

bench: ## measure against the limits and against other tools
	@sh tests/setup.sh test
	.venv/bin/python tests/bench/run.py

# The command lives in a virtual environment of its own, which also brings the manual and the completions; those are
# copied to where man and the shells look. Everything is built in a scratch directory before anything is replaced.
#
# The script of pip is replaced by one that starts Python without `site` and without what the environment or the current
# directory would bring in (-I -S): a quarter of the time of `sesh ls --json`. Where the first line would be longer than
# every kernel takes, the script of pip stays.
SESH_HOME = $(PREFIX)/lib/sesh

install: ## install command, manual and completions below PREFIX (/usr/local)
	@set -eu; umask 022; \
	fail() { echo "install: $$*" >&2; exit 1; }; \
	case "$(PREFIX)" in *" "* | [!/]*) fail "PREFIX must be an absolute path without spaces, not $(PREFIX)" ;; esac; \
	[ ! -e "$(SESH_HOME)" ] || [ -e "$(SESH_HOME)/pyvenv.cfg" ] || fail "$(SESH_HOME) is not ours"; \
	[ ! -e "$(PREFIX)/bin/sesh" ] || [ "$(PREFIX)/bin/sesh" -ef "$(SESH_HOME)/bin/sesh" ] \
		|| fail "$(PREFIX)/bin/sesh is not ours"; \
	python=$$(sh tests/setup.sh python); \
	scratch=$$(mktemp -d); \
	trap 'rm -rf "$$scratch"' EXIT; \
	pip() { \
		"$$scratch/venv/bin/python" -m pip --disable-pip-version-check --retries 1 --timeout 15 "$$@" \
			>"$$scratch/log" 2>&1 || { cat "$$scratch/log" >&2; fail "pip could not get or build what sesh needs"; }; \
	}; \
	mkdir "$$scratch/source"; \
	cp -R pyproject.toml setup.py README.md LICENSE sesh man completions "$$scratch/source"; \
	"$$python" -m venv "$$scratch/venv"; \
	pip wheel --wheel-dir "$$scratch/wheels" "$$scratch/source"; \
	$(MAKE) --no-print-directory uninstall; \
	"$$python" -m venv --without-pip "$(SESH_HOME)"; \
	pip --python "$(SESH_HOME)/bin/python" install --no-index --find-links "$$scratch/wheels" sesh; \
	first="#!$(SESH_HOME)/bin/python -IS"; \
	case "$$first" in *[\'\"\\]*) ;; *) [ "$${#first}" -gt 127 ] || printf '%s\n' "$$first" 'import sys' '' \
		"sys.path.append('$$(echo "$(SESH_HOME)"/lib/python3*/site-packages)')" \
		"$$(tail -n +2 sesh/bin/sesh)" >"$(SESH_HOME)/bin/sesh" ;; \
	esac; \
	mkdir -p "$(PREFIX)/bin"; \
	ln -sf ../lib/sesh/bin/sesh "$(PREFIX)/bin/sesh"; \
	cd "$(SESH_HOME)"; \
	find share -type f | while read -r file; do \
		mkdir -p "$(PREFIX)/$${file%/*}"; \
		install -m 644 "$$file" "$(PREFIX)/$$file"; \
	done; \
	echo "installed $(PREFIX)/bin/sesh"; \
	case ":$$PATH:" in *":$(PREFIX)/bin:"*) ;; *) \
		echo "install: $(PREFIX)/bin is not in your PATH: add it there, for example in ~/.profile" >&2 ;; \
	esac; \
	command -v tmux >/dev/null || echo "install: tmux is missing: sesh needs tmux 3.2 or newer" >&2

uninstall: ## remove what install put there; sessions and their records stay
	@set -eu; \
	[ -e "$(SESH_HOME)/pyvenv.cfg" ] || exit 0; \
	cd "$(SESH_HOME)"; \
	find share -type f | while read -r file; do rm -f "$(PREFIX)/$$file"; done; \
	if [ "$(PREFIX)/bin/sesh" -ef bin/sesh ]; then rm "$(PREFIX)/bin/sesh"; fi; \
	rm -rf "$(SESH_HOME)"

clean: ## remove everything that was made here
	rm -rf .venv .agents .bench .roots .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
