"""Where the texts of a figure are, to see that none lies on another or leaves it."""

from __future__ import annotations

from itertools import combinations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

LONG = (
    "Beauty & personal care of all kinds",
    "Books, magazines and newspapers",
    "Travel",
    "Household appliances and furniture, indoors",
    "Household appliances and furniture, outdoors",
    "$price_1$ [b]50%[/b]",
    "Food & Drink",
    "Sports, outdoor equipment and bicycles",
    "Μουσική και βιβλία",
    "Computers, software and the Internet",
    "Kids",
    "Online stores & services, without a name of their own",
)


def boxes(figure: Figure) -> list[tuple[str, Bbox]]:
    """Every text that is seen, with its box in pixels."""
    figure.draw_without_rendering()
    never_drawn = _labels_beyond_the_limits(figure)
    texts = []
    for text in figure.findobj(Text):
        assert isinstance(text, Text)
        if text.get_text().strip() and text.get_visible() and text not in never_drawn:
            patch = text.get_bbox_patch()
            texts.append((text.get_text(), (text if patch is None else patch).get_window_extent()))
    return texts


def _labels_beyond_the_limits(figure: Figure) -> set[Text]:
    """Ticks beyond the limits of their axis are kept but not drawn."""
    labels = set()
    for axes in figure.findobj(Axes):
        assert isinstance(axes, Axes)
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            ticks = (*axis.get_major_ticks(), *axis.get_minor_ticks())
            labels |= {label for t in ticks if not low <= t.get_loc() <= high for label in (t.label1, t.label2)}
    return labels


def assert_legible(figure: Figure, *, at_least: int) -> list[str]:
    """Every text is inside the figure and none touches another; returns the texts."""
    texts = boxes(figure)
    assert len(texts) >= at_least, texts
    inside = figure.bbox
    for name, box in texts:
        within = box.x0 >= 0 and box.y0 >= 0 and box.x1 <= inside.width and box.y1 <= inside.height
        assert within, f"{name} leaves the figure: {box}, {inside}"
    for (one, first), (other, second) in combinations(texts, 2):
        apart = first.x1 <= second.x0 or second.x1 <= first.x0 or first.y1 <= second.y0 or second.y1 <= first.y0
        assert apart, f"{one} lies on {other}: {first}, {second}"
    return [name for name, _ in texts]
