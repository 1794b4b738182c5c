"""What a test reads of a report."""

from operations.status.report import Line, Report


def line(report: Report, kind: str) -> Line:
    """The only line of a kind."""
    (found,) = [each for each in report.lines if each.kind == kind]
    return found


def why(report: Report, kind: str = "pod") -> str:
    """Why what the only line of a kind is about waits or has ended."""
    found = line(report, kind)
    assert found.why, found
    return found.why.text
