"""The API as tools for language models (Model Context Protocol): the same calls and rights, marked as an agent's."""
