"""Measures vLLM on a CPU with tiny models: a base, an adapter on it, and the model they are merged into.

    python -m benchmarks.serving

vLLM's own client asks, as `python -m operations bench` does. A model of 90,000 weights takes no time to
compute, so the figures are what the server itself needs. The table is also written to
benchmarks/serving/results-cpu.md.
"""

import os
import subprocess
import sys
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import distributions
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import urllib3

from engine.project import ROOT
from operations.serving.chat import Form
from operations.serving.connection import Connection
from operations.serving.load import AT_ONCE, TOKENS, Load, measure, require_client

_RESULTS: Final = Path(__file__).with_name("results-cpu.md")
_PYTHON: Final = ROOT / ".venv-serving/bin/python"
_VLLM: Final = ROOT / "rehearsal/running_pods/vllm-cpu/vllm"
_PORT: Final = 8117
_START_S: Final = 1200.0
_FORM: Final = Form(prompt="Translate to emoji: {text}")
_HEADER: Final = (
    "| weights | requests at once | first token, ms | slowest, ms | between tokens, ms | tokens/s |\n"
    "|---|---|---|---|---|---|"
)
_HOW_TO_READ: Final = (
    "Each figure was measured once. The two rows of a base show by how much they vary, and a\n"
    "smaller difference says nothing. A model of 90,000 weights computes nothing, so the figures are the\n"
    "server's own."
)


def main() -> None:
    """Prints the table row by row."""
    require_client()
    lines = [
        f"Commit {_commit()}; vllm-cpu {_version()}, {os.cpu_count()} cores, answers of {TOKENS} tokens.",
        "",
        _HEADER,
    ]
    print("\n".join(lines), flush=True)
    with TemporaryDirectory() as directory:
        folder = Path(directory)
        for load in _loads(folder):
            lines.append(
                f"| {load.model} | {load.at_once} | {load.first_ms:.1f} | {load.slowest_first_ms:.1f} "
                f"| {load.between_ms:.2f} | {load.tokens_per_second:.0f} |"
            )
            print(lines[-1], flush=True)
    lines += ["", f"Measured on {datetime.now(UTC):%Y-%m-%d}. {_HOW_TO_READ}"]
    _RESULTS.write_text("\n".join(lines) + "\n")


def _loads(folder: Path) -> Iterator[Load]:
    tune = [ROOT / ".venv-training/bin/python", "-W", "ignore", "-m", "benchmarks.serving.tune", folder]
    environment = {
        **os.environ,
        "HF_HOME": str(folder / "home"),
        "HF_HUB_OFFLINE": "1",
        "TMPDIR": str(folder),
    }
    subprocess.run(tune, cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL)
    adapter = ["--enable-lora", f"--lora-modules=adapter={folder}/run/adapter"]
    for served, model, more in (
        (("base",), folder / "text-model", []),
        # The base again: what a server costs that could also answer with an adapter.
        (("base, adapter possible", "adapter"), folder / "text-model", adapter),
        (("merged",), folder / "run/model", []),
    ):
        with _server(model, [f"--served-model-name={served[0]}", *more], folder / f"{served[0]}.log") as url:
            for name in served:
                yield from (measure(Connection(url), name, _FORM, at_once) for at_once in AT_ONCE)


@contextmanager
def _server(model: Path, arguments: Sequence[str], log: Path) -> Generator[str]:
    """The address of a server of a model, from its first answer to the end of the context."""
    command = [_PYTHON, _VLLM, "serve", model, f"--port={_PORT}", "--max-model-len=4096", *arguments]
    url = f"http://127.0.0.1:{_PORT}"
    with log.open("w") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            began = time.monotonic()
            while not _answers(url):
                if process.poll() is not None or time.monotonic() - began > _START_S:
                    sys.exit(f"the server did not start: {log.read_text()[-2000:]}")
                time.sleep(1)
            yield url
        finally:
            process.terminate()


def _answers(url: str) -> bool:
    try:
        return urllib3.request("GET", f"{url}/health", retries=False, timeout=5).status == 200
    except urllib3.exceptions.HTTPError:
        return False


def _version() -> str:
    (packages,) = (ROOT / ".venv-serving/lib").glob("python*/site-packages")
    return next(package.version for package in distributions(name="vllm-cpu", path=[str(packages)]))


def _commit() -> str:
    """The commit of the code that is measured."""

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout

    changed = git(
        "status", "--porcelain", "--", "operations/serving", "rehearsal/running_pods", "benchmarks/serving"
    )
    return git("rev-parse", "--short=12", "HEAD").strip() + (" with changes" if changed.strip() else "")


if __name__ == "__main__":
    main()
