"""One process that owns one device: start-up and loop. Knows nothing of Gradio or of queues."""
