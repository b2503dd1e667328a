"""REST, its Python client, the `statecore` command line, the agent, and the tools for language models."""
