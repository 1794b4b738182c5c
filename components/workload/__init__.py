"""What runs: jobs, Ray clusters, servers."""
