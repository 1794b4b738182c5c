"""The scenarios. Each is a module with its `Settings` and a function `build` that declares its components."""
