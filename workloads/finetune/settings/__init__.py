"""A recipe: its sections, what they allow, and the form of its rows."""
