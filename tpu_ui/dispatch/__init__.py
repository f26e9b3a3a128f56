"""From a valid request to a worker and back: interface, queue, local processes. No torch."""
