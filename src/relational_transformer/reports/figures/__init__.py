"""Pictures as SVG: text that scales, follows the reader's light or dark colours, and needs nothing but a browser."""
