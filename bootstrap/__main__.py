"""The Pulumi program: reads the settings, declares the bootstrap, exports what the forges must be told."""

import sys
from pathlib import Path

import pulumi

# Pulumi runs it in its own folder; it shares components and the reader of settings with the stacks.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bootstrap import program
from bootstrap.settings import Settings
from components.retries import wait_out_refusals
from stacks.reader import ConfigReader, SettingsError

try:
    settings = ConfigReader.of_program().read(Settings)
except SettingsError as error:
    raise pulumi.RunError(str(error)) from None

wait_out_refusals()
for name, value in program.build(settings).items():
    pulumi.export(name, value)
