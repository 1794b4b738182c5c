"""The Pulumi program: reads the stack's settings, builds its scenario, exports what it returns."""

import pulumi

import stacks
from stacks import settings

try:
    chosen = settings.load()
except settings.SettingsError as error:
    raise pulumi.RunError(str(error)) from None

for name, value in stacks.build(chosen).items():
    pulumi.export(name, value)
