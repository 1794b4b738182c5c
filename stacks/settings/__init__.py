"""Settings by topic, and the reader that fills them from a configuration."""
