"""Where the programs come from: Go builds what tools/ pins."""

from pathlib import Path

import pytest

from engine import go_build
from engine.build_progress import BuildProgress
from engine.errors import EngineError
from rehearsal.control_plane import programs


def test_what_go_cannot_download_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(go_build, "TOOLS", tmp_path)
    monkeypatch.setenv("GOPROXY", "off")
    monkeypatch.setenv("GOMODCACHE", str(tmp_path / "modules"))
    with pytest.raises(EngineError, match=r"building kuberay failed:\n(.|\n)*GOPROXY=off"):
        programs.KUBERAY.build(BuildProgress(log=print))
