"""Previews of a merge request: what each stack would change, as one comment."""
