"""The Pulumi program: reads the settings, declares the bootstrap, exports what the forges must be told."""

import sys
from pathlib import Path

import pulumi

# Pulumi runs it in its own folder; it shares components with the stacks.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bootstrap import program, settings

try:
    chosen = settings.load()
except settings.SettingsError as error:
    raise pulumi.RunError(str(error)) from None

for name, value in program.build(chosen).items():
    pulumi.export(name, value)
