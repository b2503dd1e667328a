"""OpenAPI, derived from the registry, the models and the request bodies."""
