"""What every HTTP server of the package shares: guard, job queue, sockets and host names."""
