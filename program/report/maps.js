/* Draws small multiples of heat maps (figure.maps): one packed block of levels [rows, columns, cells, cells],
   a level being the root of a weight. A map is a button; arrow keys move between maps, Enter or a click
   enlarges one, and pointer or arrow keys read the enlarged map cell by cell. */
"use strict";
(() => {
  const { inflate, read, theme } = window.otattnPage;

  const colours = (levels) => {
    const stops = theme().range.heatmap.map((text) => (
      [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16))));
    return Array.from({ length: levels }, (_, level) => {
      const place = (level / (levels - 1)) * (stops.length - 1);
      const below = Math.min(Math.floor(place), stops.length - 2);
      return stops[below].map((part, index) => part + (place - below) * (stops[below + 1][index] - part));
    });
  };

  const paint = (canvas, levels, cells, palette) => {
    const context = canvas.getContext("2d");
    const image = context.createImageData(cells, cells);
    for (let index = 0; index < levels.length; index += 1) {
      image.data.set(palette[levels[index]], 4 * index);
      image.data[4 * index + 3] = 255;
    }
    context.putImageData(image, 0, 0);
  };

  const element = (name, className, parent) => {
    const made = document.createElement(name);
    if (className) made.className = className;
    parent.append(made);
    return made;
  };

  const canvasIn = (parent, cells) => {
    const canvas = element("canvas", "", parent);
    canvas.width = cells;
    canvas.height = cells;
    return canvas;
  };

  // The tokens of a cell: its first, and its last where it has more than one.
  const nameCell = (labels, pieces, step, cell) => {
    const begin = (piece) => Math.ceil((Math.min(piece, pieces) * labels.length) / pieces);
    const first = begin(cell * step);
    const last = begin((cell + 1) * step) - 1;
    const name = (token) => `${token} ${labels[token]}`;
    return first >= last ? name(first) : `${name(first)} to ${name(last)}`;
  };

  const enlarge = (figure, labels, { cells, pieces, step, levels }) => {
    const box = element("div", "large", figure);
    const title = element("h4", "", box);
    const canvas = canvasIn(box, cells);
    const said = element("p", "reading", box);
    const mark = element("div", "crosshair", box);
    const at = { query: 0, key: 0 };
    let shown = null;
    canvas.tabIndex = 0;
    canvas.setAttribute("role", "img");
    said.setAttribute("aria-live", "polite");
    const tell = () => {
      const level = shown.levels[at.query * cells + at.key] / (levels - 1);
      said.textContent = `query ${nameCell(labels, pieces, step, at.query)} \u2192 key `
        + `${nameCell(labels, pieces, step, at.key)}: ${(level * level).toFixed(2)}`;
      const side = canvas.clientWidth / cells;
      mark.style.width = `${side}px`;
      mark.style.height = `${side}px`;
      mark.style.left = `${canvas.offsetLeft + canvas.clientLeft + at.key * side}px`;
      mark.style.top = `${canvas.offsetTop + canvas.clientTop + at.query * side}px`;
    };
    const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    const inside = (cell) => Math.max(0, Math.min(cells - 1, cell));
    canvas.addEventListener("keydown", (event) => {
      if (event.key === "Escape") shown.button.focus();
      if (!moves[event.key]) return;
      event.preventDefault();
      at.query = inside(at.query + moves[event.key][0]);
      at.key = inside(at.key + moves[event.key][1]);
      tell();
    });
    canvas.addEventListener("pointermove", (event) => {
      const side = canvas.clientWidth / cells;
      at.key = inside(Math.floor(event.offsetX / side));
      at.query = inside(Math.floor(event.offsetY / side));
      tell();
    });
    return {
      show(map, palette) {
        shown = map;
        title.textContent = map.name;
        canvas.setAttribute("aria-label", `${map.name}: arrow keys read cells, Escape goes back`);
        paint(canvas, map.levels, cells, palette);
        tell();
      },
      focus: () => canvas.focus(),
    };
  };

  const build = async (figure) => {
    const sizes = Object.fromEntries(["rows", "columns", "cells", "pieces", "step", "levels"]
      .map((name) => [name, Number(figure.dataset[name])]));
    const { rows, columns, cells, levels } = sizes;
    const labels = read(figure.querySelector('script[type="application/json"]'));
    const packed = figure.querySelector('script[type="text/plain"]').textContent;
    const bytes = new Uint8Array(await (await inflate(packed)).arrayBuffer());
    const scroll = document.createElement("div");
    scroll.className = "scroll";
    figure.querySelector("figcaption").before(scroll);
    const grid = element("div", "multiples", scroll);
    grid.style.setProperty("--columns", columns);
    grid.setAttribute("role", "group");
    grid.setAttribute("aria-label", figure.querySelector("h3").textContent);
    const large = enlarge(figure, labels, sizes);
    const maps = [];
    const choose = (map) => {
      for (const one of maps) {
        one.button.tabIndex = one === map ? 0 : -1;
        one.button.setAttribute("aria-pressed", String(one === map));
      }
      large.show(map, colours(levels));
    };
    for (let index = 0; index < rows * columns; index += 1) {
      const row = Math.floor(index / columns);
      const column = index % columns;
      if (column === 0) element("span", "row-name", grid).textContent = row;
      const button = element("button", "map", grid);
      const map = {
        button,
        name: `layer ${row}, head ${column}`,
        canvas: canvasIn(button, cells),
        levels: bytes.subarray(index * cells * cells, (index + 1) * cells * cells),
      };
      button.type = "button";
      button.title = map.name;
      button.setAttribute("aria-label", map.name);
      button.addEventListener("click", () => { choose(map); large.focus(); });
      maps.push(map);
    }
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns };
    grid.addEventListener("keydown", (event) => {
      const from = maps.findIndex((map) => map.button === document.activeElement);
      const to = from + steps[event.key];
      if (from < 0 || !(to >= 0 && to < maps.length)) return;
      event.preventDefault();
      choose(maps[to]);
      maps[to].button.focus();
    });
    const drawAll = () => {
      const palette = colours(levels);
      for (const map of maps) paint(map.canvas, map.levels, cells, palette);
    };
    drawAll();
    choose(maps[0]);
    document.documentElement.addEventListener("themechange", () => {
      drawAll();
      choose(maps.find((map) => map.button.tabIndex === 0));
    });
    figure.dataset.drawn = String(maps.length);
  };

  if (typeof DecompressionStream === "undefined") return;
  for (const figure of document.querySelectorAll("figure.maps")) build(figure);
})();
