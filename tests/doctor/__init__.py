"""The doctor says what is wrong and what to do, and is content with what is right."""
