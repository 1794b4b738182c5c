"""What nobody here has seen on the cloud, and what the first person with a project sees of it."""
