"""The API as tools for language models (Model Context Protocol), with the same permissions; callers act as agents."""
