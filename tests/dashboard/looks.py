"""Properties of a page that make it readable, measured in the browser."""

from typing import Any

from playwright.sync_api import Page

__all__ = ["blank_charts", "clipped", "nameless", "too_wide"]

#: Controls without an accessible name.
_NAMELESS = """() => [...document.querySelectorAll("button, a[href], input, select, textarea")]
  .filter((element) => element.checkVisibility())
  .filter((element) => !(element.getAttribute("aria-label") || element.labels?.length || element.textContent.trim()))
  .map((element) => element.outerHTML.slice(0, 120))"""

#: Elements that are wider than the window, without those inside of something that scrolls.
_TOO_WIDE = """() => [...document.querySelectorAll("body *")]
  .filter((element) => element.checkVisibility())
  .filter((element) => !element.closest(".table-wrap, .graph-wrap, .navigation, .visually-hidden, .skip, pre"))
  .filter((element) => element.getBoundingClientRect().right > innerWidth + 1)
  .map((element) => `${element.tagName}.${element.className}: ${Math.round(element.getBoundingClientRect().right)}`)"""

#: Texts that are cut off by their own box, where no ellipsis shows it and nothing scrolls.
_CLIPPED = """() => [...document.querySelectorAll("main *")]
  .filter((element) => element.checkVisibility() && element.childElementCount === 0 && element.textContent.trim())
  .filter((element) => element.scrollWidth > element.clientWidth + 1 && element.clientWidth > 0)
  .filter((element) => getComputedStyle(element).overflowX !== "visible")
  .filter((element) => !["auto", "scroll"].includes(getComputedStyle(element).overflowX))
  .filter((element) => getComputedStyle(element).textOverflow !== "ellipsis")
  .map((element) => element.textContent.trim().slice(0, 60))"""

#: Charts in which nothing is drawn: no pixel of a canvas, and no bar, has the colour of a line of the legend.
_BLANK = """() => [...document.querySelectorAll("main figure.chart")]
  .filter((figure) => {
    const canvas = figure.querySelector("canvas");
    if (!canvas) return ![...figure.querySelectorAll(".bar-part")].some((bar) => bar.offsetHeight > 0);
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    const drawn = (place, [red, green, blue]) =>
      data[place + 3] > 200 &&
      Math.abs(data[place] - red) + Math.abs(data[place + 1] - green) + Math.abs(data[place + 2] - blue) < 12;
    return [...figure.querySelectorAll("[data-line] .swatch")].every((swatch) => {
      const colour = getComputedStyle(swatch).borderTopColor.match(/[\\d.]+/g).slice(0, 3).map(Number);
      for (let place = 0; place < data.length; place += 4) if (drawn(place, colour)) return false;
      return true;
    });
  })
  .map((figure) => figure.getAttribute("aria-label"))"""


def nameless(page: Page) -> list[Any]:
    """Return the controls without an accessible name."""
    found: list[Any] = page.evaluate(_NAMELESS)
    return found


def too_wide(page: Page) -> list[Any]:
    """Return the elements that reach over the right edge of the window."""
    found: list[Any] = page.evaluate(_TOO_WIDE)
    return found


def clipped(page: Page) -> list[Any]:
    """Return the texts that are cut off without a sign of it."""
    found: list[Any] = page.evaluate(_CLIPPED)
    return found


def blank_charts(page: Page) -> list[Any]:
    """Return the charts in which nothing is drawn."""
    found: list[Any] = page.evaluate(_BLANK)
    return found
