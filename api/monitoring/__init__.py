"""Calls for operators and dashboards: machines, statistics, stuck entities, alerts and the journal."""
