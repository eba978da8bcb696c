"""Measures any PyTorch process from inside; README.md in the folder above says what it writes."""
