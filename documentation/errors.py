"""What keeps a page from being written."""


class DocumentationError(Exception):
    """A page cannot be generated; the message says what to add, and where."""
