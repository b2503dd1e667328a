"""Getting committed events to their readers: the sequencer numbers them, sinks process them, live pushes them."""
