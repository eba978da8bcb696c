"""Measures any PyTorch process from inside; docs/observer.md says what it writes."""
