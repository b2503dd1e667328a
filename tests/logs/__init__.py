"""The logs of tasks: numbers, limits, followers, the agent and the page."""
