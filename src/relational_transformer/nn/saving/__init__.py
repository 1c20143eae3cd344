"""Models as folders of safetensors and JSON, saved, loaded again and shared."""
