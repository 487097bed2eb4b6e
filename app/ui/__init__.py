"""The Gradio page: one file a tab."""
