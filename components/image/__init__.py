"""Images: repositories, builds and mirrors."""
