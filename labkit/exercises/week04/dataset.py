"""A dataset of windows from a series, each with the value ahead of it."""

import itertools

from labkit.exercises.declare import Case, Implement, Mistake, vary


class _Windows:
    """What the exercise gives: the attributes, and a length and an item that the variants below change."""

    def __init__(self, series, width, ahead):
        self.series, self.width, self.ahead = series, width, ahead

    def __len__(self):
        return len(self.series) - self.width - self.ahead + 1

    def __getitem__(self, index):
        end = index + self.width
        return self.series[index:end], self.series[end + self.ahead - 1]


class _WindowsOneLate(_Windows):
    def __len__(self):
        return len(self.series) - self.width - self.ahead

    def __getitem__(self, index):
        end = index + self.width
        return self.series[index:end], self.series[end + self.ahead]


class _WindowsSeeTheTarget(_Windows):
    def __getitem__(self, index):
        return super().__getitem__(index)[0], self.series[index + self.width - 1]


class _WindowsNextOnly(_Windows):
    def __getitem__(self, index):
        return super().__getitem__(index)[0], self.series[index + self.width]


class _WindowsFromTheStart(_Windows):
    def __getitem__(self, index):
        return self.series[index : index + self.width], self.series[index + self.ahead]


class _WindowsAllAhead(_Windows):
    def __getitem__(self, index):
        end = index + self.width
        return self.series[index:end], self.series[end : end + self.ahead]


class _WindowsApart(_Windows):
    def __getitem__(self, index):
        return super().__getitem__(index * self.width)


class _WindowsApartAndCounted(_WindowsApart):
    def __len__(self):
        return (len(self.series) - self.ahead) // self.width


class _WindowsLengthOfSeries(_Windows):
    def __len__(self):
        return len(self.series)


class _WindowsLengthWithoutAhead(_Windows):
    def __len__(self):
        return len(self.series) - self.width


class _WindowsLengthOneShort(_Windows):
    def __len__(self):
        return len(self.series) - self.width - self.ahead


def _read_windows(Windows, series, width, ahead):
    data = Windows(series, width, ahead)
    return {"length": len(data), "items": list(itertools.islice(data, len(series)))}


exercise = Implement(
    title="A dataset of windows",
    minutes=8,
    cases=[
        Case("the next value", lambda draw: {"series": draw.normal(7), "width": 3, "ahead": 1}),
        Case("three ahead", lambda draw: {"series": draw.normal(11), "width": 4, "ahead": 3}),
        Case("windows of one value", lambda draw: {"series": draw.normal(5), "width": 1, "ahead": 2}),
        Case("not contiguous", lambda draw: {"series": draw.strided(9), "width": 2, "ahead": 4}),
        Case("exactly one window", lambda draw: {"series": draw.normal(6), "width": 4, "ahead": 2}),
    ],
    use=_read_windows,
    oracle=vary(_read_windows, Windows=_Windows),
    reference="the page",
    memory="any",
    mistakes=[
        Mistake(
            "the window holds the target",
            "The target is the last value of the window itself: the model would only have to copy it.",
            _WindowsSeeTheTarget,
        ),
        Mistake(
            "always the next value",
            "The target is always the value right after the window; count `ahead` steps from its end.",
            _WindowsNextOnly,
        ),
        Mistake(
            "one step too far",
            "The target lies one step too far: ahead = 1 is the value right after the window.",
            _WindowsOneLate,
        ),
        Mistake(
            "windows side by side",
            "The windows do not overlap: item 1 starts at value 1, not after the whole of item 0.",
            _WindowsApart,
        ),
        Mistake(
            "windows side by side, and counted so",
            "The windows do not overlap: item 1 starts at value 1, so there are nearly as many windows as values.",
            _WindowsApartAndCounted,
        ),
        Mistake(
            "counted from the start",
            "The target lies `ahead` steps after the *start* of the window; count from its last value.",
            _WindowsFromTheStart,
        ),
        Mistake(
            "all values up to the target",
            "The target is every value after the window, up to the one asked for. That one alone is wanted, shape ().",
            _WindowsAllAhead,
        ),
        Mistake(
            "length of the series",
            "The length is that of the series. How many windows have a target inside it?",
            _WindowsLengthOfSeries,
        ),
        Mistake(
            "length without ahead",
            "The length counts every window, also those whose target lies beyond the end of the series.",
            _WindowsLengthWithoutAhead,
        ),
        Mistake(
            "length one short",
            "The length is one short: with 5 values, width 3 and ahead 1 there are two windows.",
            _WindowsLengthOneShort,
        ),
    ],
    hints=(
        "Draw a series of 6 values on paper, with width 3 and ahead 1. Where do windows start, and where do their targets lie?",
        "Item i starts at i and ends before i + width. Its target lies at i + width + ahead - 1, which must be below len(series).",
        "Length: len(series) - width - ahead + 1. Item: series[i : i + width], series[i + width + ahead - 1].",
    ),
    passed="`for x, y in windows` works without __iter__: Python asks for items 0, 1, 2, … until one raises IndexError.",
    excused={
        "size one": "a series of one value has no window with a target",
        "delegation": "slicing is the whole of it; torch has no such dataset",
    },
)
