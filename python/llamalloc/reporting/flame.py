# SPDX-License-Identifier: Apache-2.0
"""Flame graphs for the page: data as JSON, and the script that draws them in any browser.

Calls run downwards from the program; a box is as wide as what is allocated in and below the call.
Of a difference, red calls hold more than before and blue ones less.
"""

from __future__ import annotations

import json

from llamalloc.reporting.call_tree import Node, View, as_lists

STYLE = """
.flame { margin: 1rem 0; }
.flame .bar { display: flex; flex-wrap: wrap; gap: .4rem; align-items: center; }
.flame button, .flame input { font: inherit; font-size: .85rem; padding: .15rem .6rem;
  border: 1px solid var(--line); border-radius: 5px; background: var(--paper); color: var(--ink); }
.flame button[aria-pressed=true] { background: var(--ink); color: var(--paper); }
.flame input { flex: 1 1 12rem; max-width: 20rem; }
.flame .found, .flame .told { font-size: .85rem; color: var(--soft); }
.flame .told { min-height: 2.6em; word-break: break-word; margin: .3rem 0; max-width: none; }
.flame .graph { position: relative; overflow: hidden; }
.flame .graph div { position: absolute; height: 17px; box-sizing: border-box; overflow: hidden;
  white-space: nowrap; text-overflow: ellipsis; font: 11px/17px ui-monospace, "DejaVu Sans Mono",
  monospace; padding: 0 3px; color: #1c2024; border-right: 1px solid var(--paper);
  border-bottom: 1px solid var(--paper); border-radius: 2px; cursor: pointer; }
.flame .graph div.thin { padding: 0; border-right: 0; }
.flame .graph div.parent { opacity: .75; }
.flame .graph div.hit { background: #d65fd0 !important; }
.flame .graph div:focus-visible { outline: 2px solid var(--accent); outline-offset: -2px; }
"""

SCRIPT = """
"use strict";
for (const box of document.querySelectorAll(".flame")) {
  const data = JSON.parse(box.querySelector("script").textContent);
  const graph = box.querySelector(".graph"), told = box.querySelector(".told");
  const found = box.querySelector(".found"), field = box.querySelector("input");
  const HEIGHT = 17, THINNEST = 0.4;
  let view = 0, focus = data.root, pattern = null;
  const parents = new Map();
  for (const todo = [data.root]; todo.length;) {
    const node = todo.pop();
    for (const child of node[2]) { parents.set(child, node); todo.push(child); }
  }
  const step = data.diff ? 3 : 1;
  const width = node => node[1][view * step + (data.diff ? 2 : 0)];
  const unit = () => data.views[view].unit;
  function bytes(n) {
    const names = ["B", "KiB", "MiB", "GiB", "TiB"];
    let i = 0, x = Math.abs(n);
    while (x >= 1024 && i + 1 < names.length) { x /= 1024; ++i; }
    return (n < 0 ? "-" : "") + (i ? x.toPrecision(3) : Math.round(x)) + " " + names[i] + unit();
  }
  function hash(text) {
    let h = 2166136261;
    for (let i = 0; i < text.length; ++i) h = Math.imul(h ^ text.charCodeAt(i), 16777619);
    return (h >>> 0) / 4294967296;
  }
  function colour(node) {
    if (!data.diff) {
      const h = hash(node[0]);
      return `hsl(${18 + 34 * h}, ${62 + 20 * ((h * 97) % 1)}%, ${62 + 12 * ((h * 31) % 1)}%)`;
    }
    const [before, after] = node[1].slice(view * 3);
    const share = (after - before) / Math.max(after, before, 1);
    const light = 93 - 38 * Math.min(1, Math.abs(share));
    return Math.abs(share) < 0.005 ? "#e4e4e4" : `hsl(${share > 0 ? 4 : 214}, 78%, ${light}%)`;
  }
  function words(node) {
    const share = 100 * width(node) / Math.max(width(data.root), 1);
    if (!data.diff) return `${node[0]}: ${bytes(width(node))} (${share.toFixed(2)} %)`;
    const [before, after] = node[1].slice(view * 3);
    const sign = after >= before ? "+" : "";
    return `${node[0]}: ${bytes(before)} before, ${bytes(after)} after ` +
      `(${sign}${bytes(after - before)})`;
  }
  const matches = node => pattern && node[0].toLowerCase().includes(pattern);
  function matched(node) {  // nothing is counted twice
    return matches(node) ? width(node) : node[2].reduce((sum, c) => sum + matched(c), 0);
  }
  function put(node, left, share, row, kind) {
    const e = document.createElement("div");
    e.style.left = 100 * left + "%";
    e.style.width = 100 * share + "%";
    e.style.top = HEIGHT * row + "px";
    e.style.background = colour(node);
    const pixels = share * graph.clientWidth;
    e.className = kind + (matches(node) ? " hit" : "") + (pixels < 8 ? " thin" : "");
    if (pixels > 24) e.textContent = node[0];
    e.title = words(node);
    e.node = node;
    if (pixels > 24) e.tabIndex = 0;
    graph.append(e);
  }
  function draw() {
    graph.replaceChildren();
    const above = [];
    for (let n = parents.get(focus); n; n = parents.get(n)) above.unshift(n);
    above.forEach((node, row) => put(node, 0, 1, row, "parent"));
    let deepest = above.length;
    const whole = width(focus), thinnest = THINNEST / Math.max(graph.clientWidth, 1);
    const todo = whole > 0 ? [[focus, 0, 1, above.length]] : [];
    while (todo.length) {
      const [node, left, share, row] = todo.pop();
      put(node, left, share, row, "");
      deepest = Math.max(deepest, row);
      let x = left;
      for (const child of node[2]) {
        const part = width(child) / whole;
        if (part > thinnest) todo.push([child, x, part, row + 1]);
        x += part;
      }
    }
    graph.style.height = HEIGHT * (deepest + 1) + "px";
    told.textContent = whole > 0 ? words(focus) : "Nothing.";
    const part = 100 * matched(data.root) / Math.max(width(data.root), 1);
    found.textContent = pattern ? `${part.toFixed(1)} % found` : "";
    for (const b of box.querySelectorAll("button[data-view]"))
      b.setAttribute("aria-pressed", String(+b.dataset.view === view));
  }
  const at = event => event.target.node;
  function go(node) { focus = node; draw(); }
  graph.addEventListener("click", e => { if (at(e)) go(at(e)); });
  graph.addEventListener("mouseover", e => { if (at(e)) told.textContent = words(at(e)); });
  graph.addEventListener("mouseleave", () => { told.textContent = words(focus); });
  box.addEventListener("keydown", e => {
    if (e.key === "Enter" && at(e)) go(at(e));
    if (e.key === "Escape") go(data.root);
  });
  field.addEventListener("input", () => { pattern = field.value.trim().toLowerCase(); draw(); });
  box.querySelector("button.all").addEventListener("click", () => go(data.root));
  for (const b of box.querySelectorAll("button[data-view]"))
    b.addEventListener("click", () => { view = +b.dataset.view; draw(); });
  window.addEventListener("resize", draw);
  draw();
}
"""


def graph_json(root: Node, views: list[View], diff: bool = False) -> str:
    """The data of one graph, safe inside <script>."""
    places = [3 * i + 2 for i in range(len(views))] if diff else list(range(len(views)))
    document = {
        "diff": diff,
        "views": [{"label": v.label, "unit": "/s" if diff and v.rate else ""} for v in views],
        "root": as_lists(root, places),
    }
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=True)
    return text.replace("<", "\\u003c").replace("&", "\\u0026")
