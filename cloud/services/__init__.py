"""Facts about services of Google Cloud and Kubernetes: a module each, with records of its resource types."""
