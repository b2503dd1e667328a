"""The doctor reports each problem with a suggested action, and passes a healthy installation."""
