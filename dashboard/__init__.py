"""The console: pages for operators, made from the declarations and the journal."""
