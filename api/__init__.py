"""The REST API: routes from the registry, tokens and sessions, refusals as problem+json, OpenAPI."""
