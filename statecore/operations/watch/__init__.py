"""Watches over the installation itself, without beat and broker: its processes, leader, sweeps, disks and clocks."""

from .watch import EVALUATE_SECONDS, Watch

__all__ = ["EVALUATE_SECONDS", "Watch"]
