/* Patterns of heads (figure.maps): a grid of small maps beside the chosen one, large and with its tokens. One packed
   block of levels [layers, heads, cells, cells], a level being the root of a weight. A small map is a button; arrow keys
   move between maps, Enter or a click goes into the large one, where pointer or arrow keys read cells. What is chosen
   here is chosen in every chart of layers by heads, and the other way round (otattnPage.chooseHead). */
"use strict";
(() => {
  const { inflate, read, theme, chooseHead, chosenHead } = window.otattnPage;
  const GUTTER = 86;
  const FOOT = 72;
  const SIDE = 560;
  const LABEL_STEP = 13;

  const palette = () => theme().range.heatmap.map((text) => (
    [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16))));

  const colours = (levels) => {
    const stops = palette();
    return Array.from({ length: levels }, (_, level) => {
      const place = (level / (levels - 1)) * (stops.length - 1);
      const below = Math.min(Math.floor(place), stops.length - 2);
      return stops[below].map((part, index) => part + (place - below) * (stops[below + 1][index] - part));
    });
  };

  const paint = (canvas, levels, cells, shades) => {
    const context = canvas.getContext("2d");
    const image = context.createImageData(cells, cells);
    for (let index = 0; index < levels.length; index += 1) {
      image.data.set(shades[levels[index]], 4 * index);
      image.data[4 * index + 3] = 255;
    }
    context.putImageData(image, 0, 0);
  };

  const element = (name, className, parent, text) => {
    const made = document.createElement(name);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    parent.append(made);
    return made;
  };

  const canvasIn = (parent, cells) => {
    const canvas = element("canvas", "", parent);
    canvas.width = cells;
    canvas.height = cells;
    return canvas;
  };

  // First and last token of a cell.
  const tokensOf = ({ tokens, pieces, step }, cell) => {
    const begin = (piece) => Math.ceil((Math.min(piece, pieces) * tokens.length) / pieces);
    return [begin(cell * step), begin((cell + 1) * step) - 1];
  };

  const nameCell = (sizes, cell) => {
    const [first, last] = tokensOf(sizes, cell);
    const name = (token) => `${token} ${sizes.tokens[token]}`;
    return first >= last ? name(first) : `${name(first)} to ${name(last)}`;
  };

  const short = (value) => (Math.abs(value) >= 1000 ? value.toFixed(0) : String(Number(value.toPrecision(3))));

  // Tokens along the left and the lower side, as many as there is room for; the one being read stands out.
  const drawAxes = (axes, sizes, side, at) => {
    const ratio = window.devicePixelRatio || 1;
    axes.width = (side + GUTTER) * ratio;
    axes.height = (side + FOOT) * ratio;
    axes.style.width = `${side + GUTTER}px`;
    axes.style.height = `${side + FOOT}px`;
    const context = axes.getContext("2d");
    const style = theme().axis;
    context.scale(ratio, ratio);
    context.textAlign = "right";
    context.textBaseline = "middle";
    const cell = side / sizes.cells;
    const every = Math.max(1, Math.ceil(LABEL_STEP / cell));
    const label = (index, x, y, turn, chosen) => {
      const room = turn === 0 ? GUTTER - 22 : FOOT - 20;
      const [first] = tokensOf(sizes, index);
      context.save();
      context.translate(x, y);
      context.rotate(turn);
      context.font = `${chosen ? "600 " : ""}11px system-ui, sans-serif`;
      context.fillStyle = chosen ? style.titleColor : style.labelColor;
      let text = sizes.tokens[first];
      while (text.length > 1 && context.measureText(text).width > room) text = `${text.slice(0, -2)}\u2026`;
      context.fillText(text, 0, 0);
      context.restore();
    };
    const near = (index, chosen) => index !== chosen && Math.abs(index - chosen) * cell < LABEL_STEP;
    for (const [chosen, place] of [[at.query, (index) => [GUTTER - 6, (index + 0.5) * cell, 0]],
      [at.key, (index) => [GUTTER + (index + 0.5) * cell, side + 6, -Math.PI / 2]]]) {
      for (let index = 0; index < sizes.cells; index += 1) {
        if (index !== chosen && (index % every !== 0 || near(index, chosen))) continue;
        const [x, y, turn] = place(index);
        label(index, x, y, turn, index === chosen);
      }
    }
    context.fillStyle = style.titleColor;
    context.font = "500 12px system-ui, sans-serif";
    context.fillText("key", GUTTER + side, side + FOOT - 8);
    context.save();
    context.translate(8, 0);
    context.rotate(-Math.PI / 2);
    context.fillText("query", 0, 0);
    context.restore();
  };

  const addScale = (box) => {
    const scale = element("div", "scale", box);
    element("span", "", scale, "weight (root scale)");
    const bar = element("span", "bar", scale);
    for (const weight of [0, 0.05, 0.25, 0.5, 1]) {
      const tick = element("span", "", bar, String(weight));
      tick.style.left = `${100 * Math.sqrt(weight)}%`;
    }
    return () => {
      bar.style.backgroundImage = `linear-gradient(to right, ${palette().map((rgb) => `rgb(${rgb})`).join(", ")})`;
    };
  };

  const enlarge = (box, numbers, sizes) => {
    const { cells, levels } = sizes;
    const title = element("h4", "", box);
    const sheet = element("div", "sheet", box);
    const axes = element("canvas", "axes", sheet);
    const canvas = canvasIn(sheet, cells);
    const mark = element("div", "crosshair", sheet);
    const said = element("p", "reading", box);
    const paintScale = addScale(box);
    const at = { query: 0, key: 0 };
    let shown = null;
    axes.setAttribute("aria-hidden", "true");
    canvas.className = "cells";
    canvas.tabIndex = 0;
    canvas.setAttribute("role", "img");
    said.setAttribute("aria-live", "polite");
    const side = () => canvas.clientWidth;
    const tell = () => {
      const level = shown.levels[at.query * cells + at.key] / (levels - 1);
      said.textContent = `query ${nameCell(sizes, at.query)} \u2192 key `
        + `${nameCell(sizes, at.key)}: ${(level * level).toFixed(2)}`;
      const cell = side() / cells;
      mark.style.width = `${cell}px`;
      mark.style.height = `${cell}px`;
      mark.style.left = `${canvas.offsetLeft + at.key * cell}px`;
      mark.style.top = `${canvas.offsetTop + at.query * cell}px`;
      drawAxes(axes, sizes, side(), at);
    };
    const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    const inside = (cell) => Math.max(0, Math.min(cells - 1, cell));
    const move = (query, key) => {
      if (query === at.query && key === at.key) return;
      Object.assign(at, { query, key });
      tell();
    };
    canvas.addEventListener("keydown", (event) => {
      if (event.key === "Escape") shown.button.focus();
      if (!moves[event.key]) return;
      event.preventDefault();
      move(inside(at.query + moves[event.key][0]), inside(at.key + moves[event.key][1]));
    });
    for (const kind of ["pointerdown", "pointermove"]) {
      canvas.addEventListener(kind, (event) => {
        const cell = side() / cells;
        move(inside(Math.floor(event.offsetY / cell)), inside(Math.floor(event.offsetX / cell)));
      });
    }
    const fit = () => {
      // The sheet is as wide as its column leaves, and square beside its gutters.
      const width = Math.min(SIDE, box.clientWidth - GUTTER - 2);
      if (width < 40) return;
      sheet.style.setProperty("--side", `${width}px`);
      if (shown) tell();
    };
    new ResizeObserver(fit).observe(box);
    return {
      show(map, shades) {
        shown = map;
        title.textContent = map.kind ? `${map.name}: ${map.kind}` : map.name;
        canvas.setAttribute("aria-label", `${title.textContent}: arrow keys read cells, Escape goes back`);
        paint(canvas, map.levels, cells, shades);
        paintScale();
        numbers.replaceChildren();
        for (const { title: name, values } of sizes.measures) {
          const value = values[map.index];
          if (value === null || value === undefined) continue;
          const pair = element("div", "", numbers);
          element("dt", "", pair, name);
          element("dd", "", pair, short(value));
        }
        fit();
      },
      focus: () => canvas.focus(),
    };
  };

  const choice = (bar, label, options) => {
    const box = element("label", "", bar, `${label} `);
    const select = element("select", "", box);
    for (const [value, text] of options) {
      const option = element("option", "", select, text);
      option.value = value;
    }
    return select;
  };

  const build = async (figure) => {
    const sizes = Object.fromEntries(["first", "layers", "heads", "cells", "pieces", "step", "levels"]
      .map((name) => [name, Number(figure.dataset[name])]));
    Object.assign(sizes, read(figure.querySelector('script[type="application/json"]')));
    const { first, layers, heads, cells, levels, measures, names } = sizes;
    const packed = figure.querySelector('script[type="text/plain"]').textContent;
    const bytes = new Uint8Array(await (await inflate(packed)).arrayBuffer());
    const caption = figure.querySelector("figcaption");
    const bar = document.createElement("div");
    bar.className = "choices";
    const explorer = document.createElement("div");
    explorer.className = "explorer";
    caption.before(bar, explorer);
    const side = element("div", "side", explorer);
    const scroll = element("div", "scroll", side);
    const grid = element("div", "multiples", scroll);
    grid.style.setProperty("--columns", heads);
    grid.setAttribute("role", "group");
    grid.setAttribute("aria-label", `${figure.querySelector("h3").textContent}: arrow keys move between heads`);
    const large = enlarge(element("div", "large", explorer), element("dl", "numbers", side), sizes);

    const maps = [];
    let order = [];
    let current = null;
    const choose = (map, tellOthers) => {
      if (!map) return;
      current = map;
      for (const one of maps) {
        one.button.tabIndex = one === map ? 0 : -1;
        one.button.setAttribute("aria-pressed", String(one === map));
      }
      large.show(map, colours(levels));
      // Into sight within the grid; the page itself stays where it is.
      const { offsetTop, offsetHeight } = map.button;
      if (offsetTop < scroll.scrollTop) scroll.scrollTop = offsetTop - 30;
      if (offsetTop + offsetHeight > scroll.scrollTop + scroll.clientHeight) {
        scroll.scrollTop = offsetTop + offsetHeight + 8 - scroll.clientHeight;
      }
      if (tellOthers) chooseHead(map.layer, map.head);
    };
    for (let index = 0; index < layers * heads; index += 1) {
      const layer = first + Math.floor(index / heads);
      const head = index % heads;
      const button = document.createElement("button");
      const map = {
        index, layer, head, button,
        kind: names[index],
        name: `layer ${layer}, head ${head}`,
        levels: bytes.subarray(index * cells * cells, (index + 1) * cells * cells),
      };
      button.className = "map";
      button.type = "button";
      button.title = map.kind ? `${map.name}: ${map.kind}` : map.name;
      button.setAttribute("aria-label", map.name);
      button.addEventListener("click", () => { choose(map, true); large.focus(); });
      map.canvas = canvasIn(button, cells);
      map.said = element("span", "value", button);
      maps.push(map);
    }

    const sort = choice(bar, "Sort by", [["", "layer and head"], ...measures.map(({ title }, index) => [index, title])]);
    const filter = choice(bar, "Layer", [["", "all"],
      ...Array.from({ length: layers }, (_, index) => [first + index, first + index])]);
    const kinds = [...new Set(names.filter((name) => name !== null))];
    const kind = choice(bar, "Name", [["", "any"], ...kinds.map((name) => [name, name])]);
    kind.parentElement.hidden = kinds.length === 0;
    const leastBox = element("label", "", bar, "at least ");
    const least = element("input", "", leastBox);
    least.type = "number";
    least.step = "any";
    const count = element("output", "", bar);
    const arrange = () => {
      const measure = sort.value === "" ? null : measures[Number(sort.value)];
      const value = (map) => measure.values[map.index] ?? -Infinity;
      leastBox.hidden = measure === null;
      order = maps.filter((map) => (filter.value === "" || map.layer === Number(filter.value))
        && (kind.value === "" || map.kind === kind.value)
        && (measure === null || least.value === "" || value(map) >= Number(least.value)));
      if (measure) order.sort((a, b) => value(b) - value(a) || a.index - b.index);
      grid.replaceChildren();
      // Rows are layers and columns heads while no head of a layer is left out.
      const rows = measure === null && kind.value === "";
      grid.classList.toggle("sorted", !rows);
      if (rows) {
        element("span", "corner", grid, "layer");
        for (let head = 0; head < heads; head += 1) element("span", "column-name", grid, head === 0 ? "head 0" : head);
      }
      for (const map of order) {
        if (rows && map.head === 0) element("span", "row-name", grid, map.layer);
        const number = measure && Number.isFinite(value(map)) ? `: ${short(value(map))}` : "";
        map.said.textContent = rows ? "" : `${map.layer}.${map.head}${number}`;
        grid.append(map.button);
      }
      count.textContent = order.length === maps.length ? `${maps.length} heads` : `${order.length} of ${maps.length} heads`;
      if (order.length > 0 && current && !order.includes(current)) choose(order[0], true);
    };
    for (const control of [sort, filter, kind]) control.addEventListener("change", arrange);
    least.addEventListener("input", arrange);

    grid.addEventListener("keydown", (event) => {
      const from = order.findIndex((map) => map.button === document.activeElement);
      if (from < 0) return;
      const inRow = order.filter((map) => map.button.offsetTop === order[0].button.offsetTop).length;
      const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -inRow, ArrowDown: inRow }[event.key];
      const to = { Home: 0, End: order.length - 1 }[event.key] ?? from + step;
      if (!(to >= 0 && to < order.length)) return;
      event.preventDefault();
      choose(order[to], true);
      order[to].button.focus({ preventScroll: true });
    });
    const drawAll = () => {
      const shades = colours(levels);
      for (const map of maps) paint(map.canvas, map.levels, cells, shades);
    };
    drawAll();
    arrange();
    // The head that has most of the first measure.
    const most = (a, b) => ((measures[0]?.values[b.index] ?? -1) > (measures[0]?.values[a.index] ?? -1) ? b : a);
    if (maps.length > 0) choose(chosenHead() ? maps[0] : maps.reduce(most), !chosenHead());
    const root = document.documentElement;
    root.addEventListener("themechange", () => {
      drawAll();
      choose(current, false);
    });
    root.addEventListener("headchosen", () => {
      const { layer, head } = chosenHead();
      if (current && current.layer === layer && current.head === head) return;
      choose(maps.find((map) => map.layer === layer && map.head === head), false);
    });
    figure.dataset.drawn = String(maps.length);
  };

  if (typeof DecompressionStream === "undefined") return;
  for (const figure of document.querySelectorAll("figure.maps")) build(figure);
})();
