"""What is read off the declarations: diagrams, pages, versions."""
