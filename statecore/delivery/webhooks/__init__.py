"""Webhooks: signed messages about events, sent to the receivers that accounts have subscribed."""
