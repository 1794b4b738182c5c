"""The MaxText driver and its image. A package, so that import-linter sees who imports the driver."""
