"""One page in each file: reads a request, asks a query or the door, renders a template."""
