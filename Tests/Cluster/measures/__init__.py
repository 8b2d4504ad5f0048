"""The measurements of figures.py, one in each file."""

import statistics


def times(what, values):
    """A line with the distribution of the durations in seconds."""
    ordered = sorted(values)
    if not ordered:
        return f"{what}: no measurement"
    return (f"{what}: p50 {statistics.median(ordered) * 1000:.1f} ms, p99 {ordered[int(len(ordered) * 0.99)] * 1000:.1f} ms, "
            f"longest {ordered[-1] * 1000:.1f} ms ({len(ordered)} times)")


def say(text):
    print(text, flush=True)
