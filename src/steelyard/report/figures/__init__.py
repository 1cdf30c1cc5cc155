"""Figures: `figure` is the data of a picture, `drawing` draws it; the other modules make the figures of a result."""
