"""The tools for language models, called by the official client over HTTP."""
