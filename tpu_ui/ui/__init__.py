"""The page and the API, made with Gradio. Knows the dispatcher's interface; never a pipeline."""
