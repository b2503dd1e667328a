"""OpenAPI, read off the registry, the models and the shapes of the bodies: it cannot say what the code does not do."""
