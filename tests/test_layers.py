"""The layer rules of ARCHITECTURE.md: an import may only point down; some modules have one home."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

import sesh

PACKAGE = Path(sesh.__file__).parent

# From the top. Modules of one line do not import each other, except where `_BESIDE` says so.
LAYERS = (
    ("__main__",),
    ("terminal.fast", "terminal.main"),
    ("commands.*",),
    ("commands._care",),
    ("commands._options",),
    ("gc.report",),
    ("gc.apply",),
    ("gc.remove_files",),
    ("gc.plan",),
    ("gc.scan",),
    (
        *(
            "terminal.exit_codes",
            "operations.start_request",
            "supervision.run_pass",
            "terminal.session_list",
            "operations.attach",
            "operations.wait",
        ),
        *(
            "terminal.completion",
            "terminal.prompt",
            "doctor.fixes",
            "stats.collect",
            "api",
            "operations.orchestrator_hooks",
            "operations.send",
        ),
    ),
    ("doctor",),
    ("doctor.tmux", "doctor.sessions", "doctor.containers", "doctor.files", "doctor.machine"),
    ("doctor.scene",),
    ("supervision.supervise", "agents.template_lookup"),
    ("operations.logs", "supervision.health_checks", "agents.template"),
    ("operations.recover",),
    ("operations.start", "operations.stop", "operations.record_only"),
    ("operations.docker",),
    ("operations.claim", "operations.docker_container"),
    ("operations.launch",),
    ("operations.adopt",),
    ("operations.forget", "operations.tmux_server", "operations.stop_orphans", "operations.pause"),
    ("operations.panes", "operations.worktrees"),
    ("state.orphans",),
    ("state.unclaimed",),
    ("terminal.attention", "operations.report_progress", "agents.resumable"),
    ("state.lookup", "agents.screen"),
    (
        "state.observe",
        "terminal.session_table",
        "supervision.timer.timers",
        "supervision.notify.notices",
        "state.breakers",
    ),
    ("terminal.output", "places.docker.observe"),
    ("places.docker.mailbox", "agents.hearing", "agents.conversation"),
    ("agents.conversation_users",),
    ("agents.launch_kit", "agents.activity", "agents.hook_receiver"),
    ("system.container_engine", "agents.rule_files", "state.ages", "state.clocks", "state.ends"),
    (
        *(
            "system.tmux",
            "system.processes",
            "system.git",
            "state.settings",
            "places.launch_files",
            "places.environment",
            "state.events",
        ),
        *(
            "state.log_files",
            "state.sightings",
            "supervision.notify.targets",
            "agents.template_trust",
        ),
    ),
    ("state.records", "system.bug_log"),
    ("system.subprocesses", "system.files", "system.stdin", "system.directory_tree"),
    ("state.freshness",),
    (
        *(
            "model.codec",
            "model.digest",
            "model.reconcile",
            "model.due",
            "supervision.timer.schedules",
            "stats.prometheus",
            "model.progress",
        ),
        *("agents.claude", "agents.codex", "agents.dialogs"),
    ),
    ("model.session_json", "stats.measures", "agents.last_event", "agents.questions"),
    ("system.paths", "model.units", "agents.rules", "model.toml_table", "model.parse"),
    ("model.record", "model.errors"),
    ("model.value",),
    ("",),  # the package itself: its version
)
PURE = (
    *(
        "model.value",
        "model.record",
        "model.errors",
        "model.units",
        "model.reconcile",
        "model.due",
        "model.session_json",
        "model.codec",
        "model.digest",
    ),
    *(
        "stats.measures",
        "stats.prometheus",
        "model.progress",
        "agents.rules",
        "model.toml_table",
        "model.parse",
    ),
    *("agents.last_event", "agents.claude", "agents.codex", "agents.questions", "agents.dialogs"),
)
HOMES = {
    "click": {"terminal.main", "commands"},
    "psutil": {"system.processes"},
    "sh": {"system.subprocesses"},
    "subprocess": {"system.subprocesses"},
    "tomllib": {"model.codec", "state.settings"},
    "tomli_w": {"model.codec"},
    "fcntl": {"system.files"},
    "urllib": {"supervision.notify.targets"},
}
IMPURE = {"os", "time", "subprocess", "socket", "random", "secrets", "sys", "io", "pathlib"}


def name_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


@cache
def modules() -> dict[str, Path]:
    return {name_of(path): path for path in PACKAGE.rglob("*.py")}


@cache
def imports(path: Path) -> set[str]:
    """Full names of everything that a file imports, wherever it does."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def ours(path: Path) -> set[str]:
    """The modules of ours that a file imports."""
    known = modules()
    found = set()
    for name in imports(path):
        if name == "sesh" or name.startswith("sesh."):
            inner = name.removeprefix("sesh").removeprefix(".")
            while inner and inner not in known:
                inner = inner.rpartition(".")[0]
            found.add(inner)
    return found


def layer(module: str) -> int:
    for number, names in enumerate(LAYERS):
        if module in names:
            return number
    if modules()[module].name == "__init__.py" and not ours(modules()[module]):
        return len(LAYERS)
    package = module.rpartition(".")[0]
    return next(n for n, names in enumerate(LAYERS) if f"{package}.*" in names)


@pytest.mark.parametrize("module", sorted(modules()))
def test_imports_point_down(module: str) -> None:
    for other in ours(modules()[module]) - {module}:
        assert layer(other) > layer(module), f"{module} imports {other}"


@pytest.mark.parametrize("library", sorted(HOMES))
def test_libraries_stay_in_their_homes(library: str) -> None:
    users = {
        "commands" if module.startswith("commands.") else module
        for module, path in modules().items()
        if any(name.split(".")[0] == library for name in imports(path))
    }
    assert users <= HOMES[library]


@pytest.mark.parametrize("module", PURE)
def test_pure_modules_touch_nothing(module: str) -> None:
    found = {name.split(".")[0] for name in imports(modules()[module])}
    assert not found & IMPURE
