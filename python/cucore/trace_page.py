# SPDX-License-Identifier: Apache-2.0
"""The page of `cucore trace --html`: a self-contained file with a timeline of host threads and streams, and tables."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .trace import Event, summary

_MOST_SPANS = 20_000  # a browser renders this many without noticeable delay
_ROW = 18  # height of a row of spans in pixels
_WIDTH = 10_000  # width of the timeline in SVG units

_COLOURS = {
    "kernel": "#3a7",
    "copy": "#37b",
    "api": "#99a",
    "compile": "#c83",
    "nvtx": "#a5c",
    "graph": "#5ab",
    "wait": "#8a9",
    "host function": "#b55",
    "event": "#777",
}

_STYLE = """
:root { color-scheme: light dark; --rule: #ccc; --dim: #666; --back: #fff; }
@media (prefers-color-scheme: dark) { :root { --rule: #444; --dim: #aaa; --back: #181818; } }
body { font: 14px/1.4 system-ui, sans-serif; margin: 1.5em; }
.picture { border: 1px solid var(--rule); overflow: hidden; position: relative; cursor: grab; user-select: none; }
.track { display: flex; border-bottom: 1px solid var(--rule); }
.track .name { flex: 0 0 15em; padding: 2px 6px; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.track .spans { flex: 1; position: relative; overflow: hidden; }
.track svg { display: block; width: 100%; }
.labels { position: absolute; inset: 0; pointer-events: none; font: 11px/18px system-ui, sans-serif; color: #fff; }
.labels span { position: absolute; overflow: hidden; white-space: nowrap; padding-left: 3px; box-sizing: border-box; }
.axis { color: var(--dim); }
pre { overflow-x: auto; }
.key i { display: inline-block; width: 1em; height: 1em; vertical-align: -2px; margin: 0 .3em 0 1em; }
"""

_SCRIPT = """
const picture = document.querySelector('.picture'), whole = DATA.width, micro = DATA.microseconds;
let from = 0, to = whole;
function draw() {
  for (const svg of picture.querySelectorAll('svg'))
    svg.setAttribute('viewBox', `${from} 0 ${to - from} ${svg.dataset.height}`);
  for (const labels of picture.querySelectorAll('.labels')) {
    labels.textContent = '';
    const width = labels.clientWidth, scale = width / (to - from);
    for (const rect of labels.previousElementSibling.querySelectorAll('rect')) {
      const x = (rect.getAttribute('x') - from) * scale, w = rect.getAttribute('width') * scale;
      if (w < 40 || x > width || x + w < 0) continue;
      const left = Math.max(0, x), label = document.createElement('span');
      label.textContent = rect.dataset.name;
      label.style.cssText = `left:${left}px;top:${rect.getAttribute('y')}px;width:${Math.min(x + w, width) - left}px`;
      labels.append(label);
    }
  }
  const time = u => { const t = u / whole * micro; return t >= 1e6 ? (t / 1e6).toFixed(3) + ' s' : (t / 1e3).toFixed(3) + ' ms'; };
  document.querySelector('.axis').textContent = `${time(from)} to ${time(to)} of ${time(whole)}; wheel: zoom, drag: move, double click: all`;
}
picture.addEventListener('wheel', event => {
  event.preventDefault();
  const box = picture.querySelector('.spans').getBoundingClientRect();
  const at = from + (event.clientX - box.left) / box.width * (to - from);
  const factor = event.deltaY > 0 ? 1.25 : 0.8, least = whole / 1e7;
  const span = Math.min(whole, Math.max(least, (to - from) * factor));
  from = Math.max(0, Math.min(whole - span, at - (at - from) / (to - from) * span));
  to = from + span;
  draw();
}, {passive: false});
let held = null;
picture.addEventListener('mousedown', event => { held = {x: event.clientX, from}; });
addEventListener('mouseup', () => { held = null; });
addEventListener('mousemove', event => {
  if (!held) return;
  const box = picture.querySelector('.spans').getBoundingClientRect(), span = to - from;
  from = Math.max(0, Math.min(whole - span, held.from - (event.clientX - held.x) / box.width * span));
  to = from + span;
  draw();
});
picture.addEventListener('dblclick', () => { from = 0; to = whole; draw(); });
addEventListener('resize', draw);
draw();
"""


@dataclass
class _Track:
    name: str
    order: tuple[int, int]
    spans: list[tuple[Event, int]] = field(default_factory=list)  # (event, row)

    @property
    def rows(self) -> int:
        return 1 + max((row for _, row in self.spans), default=0)


def _tracks(events: Sequence[Event]) -> list[_Track]:
    names = {
        (event["pid"], event["tid"]): event["args"]["name"]
        for event in events
        if event.get("ph") == "M" and event["name"] == "thread_name"
    }
    spans = [event for event in events if event.get("ph") == "X"]
    if len(spans) > _MOST_SPANS:
        spans = sorted(spans, key=lambda event: -event["dur"])[:_MOST_SPANS]
    tracks: dict[tuple[int, int], _Track] = {}
    ends: dict[tuple[int, int], list[float]] = {}
    for event in sorted(spans, key=lambda event: (event["ts"], -event["dur"])):
        key = event["pid"], event["tid"]
        track = tracks.setdefault(key, _Track(names.get(key, f"thread {key[1]}"), key))
        open_until = ends.setdefault(key, [])  # end times of the enclosing spans
        while open_until and open_until[-1] <= event["ts"]:
            open_until.pop()
        track.spans.append((event, len(open_until)))
        open_until.append(event["ts"] + event["dur"])
    return sorted(tracks.values(), key=lambda track: track.order)


def _tooltip(event: Event) -> str:
    parts = [f"{event['name']} ({event['cat']})", f"{event['dur']:,.1f} µs from {event['ts'] / 1000:,.3f} ms"]
    parts += [f"{name}: {value}" for name, value in event.get("args", {}).items()]
    return "\n".join(parts)


def _picture(tracks: Sequence[_Track], whole: float) -> str:
    parts = []
    for track in tracks:
        height = _ROW * track.rows + 4
        rects = []
        for event, row in track.spans:
            x, width = event["ts"] / whole * _WIDTH, max(event["dur"] / whole * _WIDTH, 1e-4)
            name = html.escape(event["name"], quote=True)
            rects.append(
                f'<rect x="{x:.4f}" y="{2 + _ROW * row}" width="{width:.4f}" height="{_ROW - 2}" data-name="{name}" '
                f'fill="{_COLOURS.get(event["cat"], "#888")}"><title>{html.escape(_tooltip(event))}</title></rect>'
            )
        name = html.escape(track.name)
        parts.append(
            f'<div class="track"><div class="name" title="{html.escape(track.name, quote=True)}">{name}</div><div class="spans">'
            f'<svg xmlns="http://www.w3.org/2000/svg" height="{height}" data-height="{height}" preserveAspectRatio="none" '
            f'viewBox="0 0 {_WIDTH} {height}">{"".join(rects)}</svg><div class="labels"></div></div></div>'
        )
    return "".join(parts)


def page(events: Sequence[Event]) -> str:
    tracks = _tracks(events)
    spans = sum(event.get("ph") == "X" for event in events)
    whole = max((event["ts"] + event["dur"] for event in events if event.get("ph") == "X"), default=1.0) or 1.0
    key = "".join(f'<i style="background:{colour}"></i>{html.escape(name)}' for name, colour in _COLOURS.items())
    note = f"<p>The {_MOST_SPANS:,} longest of {spans:,} spans are shown.</p>" if spans > _MOST_SPANS else ""
    data = json.dumps({"width": _WIDTH, "microseconds": whole})
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Timeline</title>\n'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head>\n<body><h1>Timeline</h1>'
        f'<p class="key">{key}</p>{note}<p class="axis"></p><div class="picture">{_picture(tracks, whole)}</div>'
        f"<h2>Summary</h2><pre>{html.escape(summary(events))}</pre>"
        f"<script>const DATA = {data};{_SCRIPT}</script></body></html>\n"
    )


def write_page(events: Sequence[Event], path: Path) -> None:
    path.write_text(page(events))
