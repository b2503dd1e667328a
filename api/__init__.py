"""REST over the doors: routes from the registry, tokens and sessions, refusals as problem+json, OpenAPI."""
