"""The console: web pages for operators, generated from the machines' declarations and the journal."""
