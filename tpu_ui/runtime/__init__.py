"""The only package that imports torch and diffusers. Never heard of Gradio or of processes."""
