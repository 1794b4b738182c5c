"""The Pulumi program: reads the settings, declares the bootstrap, exports the values for the forges."""

import sys
from pathlib import Path

import pulumi

# Pulumi runs this program in its own folder. It shares components and the reader of settings with the stacks.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bootstrap import program
from bootstrap.settings import Settings
from components.base.retries import wait_out_refusals
from stacks import scenario_modules
from stacks.settings.reader import ConfigReader, SettingsError

try:
    settings = ConfigReader.of_program().read(Settings)
except SettingsError as error:
    raise pulumi.RunError(str(error)) from None

wait_out_refusals()
for name, value in program.build(settings, scenario_modules()).items():
    pulumi.export(name, value)
