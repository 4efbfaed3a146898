"""The campaigns' fixture, and their table at the end of the session."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.faults import table
from tests.faults.table import Campaign


@pytest.fixture
def campaign(
    request: pytest.FixtureRequest, record_property: Callable[[str, object], None]
) -> Iterator[Campaign]:
    """A campaign named after its test; its row goes into the test's report, however it ends."""
    made = Campaign(request.node.name.removeprefix("test_"))
    yield made
    record_property(table.PROPERTY, made.row())


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    found = [
        row
        for reports in terminalreporter.stats.values()
        for report in reports
        if getattr(report, "when", None) == "teardown"
        for row in table.rows(report.user_properties)
    ]
    if found:
        terminalreporter.section("faults injected")
        for line in table.render(found):
            terminalreporter.write_line(line)
