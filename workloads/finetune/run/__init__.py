"""The training itself: steps, answers, figures and what they are reported to."""
