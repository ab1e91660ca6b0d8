"""For tests of your own: `from dashcam.testing import recording`."""

from dashcam.sdk.testing import CountingSource, Tape, recording

__all__ = ["CountingSource", "Tape", "recording"]
