"""Figures as SVG, which follow the reader's light or dark colours and need only a browser."""
