"""The Pulumi program: reads the stack's settings, builds its scenario, exports what it returns."""

import pulumi

import stacks

try:
    outputs = stacks.build()
except stacks.SettingsError as error:
    raise pulumi.RunError(str(error)) from None

stacks.say_what_becomes_of_the_run(outputs)
for name, value in outputs.items():
    pulumi.export(name, value)
