"""Workers: claims, journals, hand-over."""
