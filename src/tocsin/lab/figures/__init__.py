"""Figures of replays: measures, fidelity to the recording, and comparison of policies."""
