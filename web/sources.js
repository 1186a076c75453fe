// Where scores come from: a sentence and a head of the model in the page, a captured head of a larger model, points in a
// square, or numbers that were pasted. A source has { queries, keys, scores, tokens: { queries, keys }, square }.
"use strict";

const LIMIT = 32;
const captured = JSON.parse(part("captured").textContent);

const floatsOf = (text) => new Float32Array(Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer);

const productOf = (queries, keys, count, width, scale) => {
  const scores = new Float64Array(count * count);
  for (let i = 0; i < count; i += 1) {
    for (let j = 0; j < count; j += 1) {
      let sum = 0;
      for (let k = 0; k < width; k += 1) sum += queries[i * width + k] * keys[j * width + k];
      scores[i * count + j] = sum * scale;
    }
  }
  return scores;
};

const capturedHead = (index) => {
  const head = captured.heads[index];
  const count = captured.tokens.length;
  return {
    queries: count, keys: count, square: true,
    tokens: { queries: captured.tokens, keys: captured.tokens },
    scores: productOf(floatsOf(head.query), floatsOf(head.key), count, captured.width, 1 / Math.sqrt(captured.width)),
  };
};

// The same points for the same seed: a small generator (mulberry32).
const drawNumbers = (seed) => {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let word = Math.imul(state ^ (state >>> 15), state | 1);
    word = (word + Math.imul(word ^ (word >>> 7), word | 61)) ^ word;
    return ((word ^ (word >>> 14)) >>> 0) / 2 ** 32;
  };
};

const drawCloud = (seed, queries, keys) => {
  const next = drawNumbers(seed);
  const spread = (x) => [x + 0.5 * (next() - 0.5), 0.5 + 0.85 * (next() - 0.5)];
  const inside = (point) => point.map((at) => Math.round(1000 * Math.min(1, Math.max(0, at))) / 1000);
  return {
    queries: Array.from({ length: queries }, () => inside(spread(0.28))),
    keys: Array.from({ length: keys }, () => inside(spread(0.72))),
  };
};

// Scores of points: minus ten times the squared distance.
const STEEPNESS = 10;
const pointScores = ({ queries, keys }) => {
  const scores = new Float64Array(queries.length * keys.length);
  queries.forEach(([x, y], i) => {
    keys.forEach(([u, v], j) => { scores[i * keys.length + j] = -STEEPNESS * ((x - u) ** 2 + (y - v) ** 2); });
  });
  const names = (letter, list) => list.map((point, index) => `${letter}${index + 1}`);
  return {
    queries: queries.length, keys: keys.length, square: queries.length === keys.length, scores,
    tokens: { queries: names("q", queries), keys: names("k", keys) },
  };
};

// Rows of numbers out of JSON ([[1, 2], [3, 4]]) or lines with commas, semicolons, tabs or blanks between numbers. A first
// line of words names the keys. Throws one sentence.
const parseScores = (text) => {
  const trimmed = text.trim();
  if (trimmed === "") throw new Error("There are no scores: paste rows of numbers.");
  let rows;
  let names = null;
  if (trimmed.startsWith("[") || trimmed.startsWith("{")) {
    try { rows = JSON.parse(trimmed); } catch (error) { throw new Error(`This is no JSON: ${error.message}.`); }
    if (!Array.isArray(rows) || rows.length === 0 || !rows.every(Array.isArray)) {
      throw new Error("JSON must be a list of rows, each a list of numbers.");
    }
    rows.forEach((row, i) => row.forEach((value, j) => {
      if (typeof value !== "number") throw new Error(`Row ${i + 1}, column ${j + 1} is ${JSON.stringify(value)}, not a number.`);
    }));
  } else {
    const lines = trimmed.split(/\r?\n/).filter((line) => line.trim() !== "");
    const split = (line) => line.trim().split(/\s*[,;\t]\s*|\s+/);
    const isNumber = (word) => word !== "" && Number.isFinite(Number(word));
    let cells = lines.map(split);
    if (!cells[0].some(isNumber)) [names, ...cells] = cells;
    if (cells.length === 0) throw new Error("There are names of keys, but no row of numbers below them.");
    rows = cells.map((row, i) => row.map((word, j) => {
      if (!isNumber(word)) throw new Error(`Row ${i + 1}, column ${j + 1} is \u201c${word.slice(0, 20)}\u201d, not a finite number.`);
      return Number(word);
    }));
  }
  const keys = rows[0].length;
  if (keys === 0) throw new Error("Row 1 has no numbers.");
  const uneven = rows.findIndex((row) => row.length !== keys);
  if (uneven >= 0) throw new Error(`Row ${uneven + 1} has ${rows[uneven].length} numbers, row 1 has ${keys}.`);
  if (rows.length > LIMIT || keys > LIMIT) {
    throw new Error(`${rows.length} rows of ${keys} numbers are too many: at most ${LIMIT} of each are shown.`);
  }
  const range = rows.flat().find((value) => Math.abs(value) > 1e6);
  if (range !== undefined) throw new Error(`${range} is too large: scores lie within 1e6.`);
  if (names && names.length !== keys) throw new Error(`There are ${names.length} names and ${keys} columns.`);
  return {
    queries: rows.length, keys, square: rows.length === keys, scores: Float64Array.from(rows.flat()),
    tokens: {
      queries: rows.map((row, index) => `row ${index + 1}`),
      keys: names ?? Array.from({ length: keys }, (_, index) => `${index + 1}`),
    },
  };
};

// The small maps of every head: a button each, arrow keys move between them.
const fillHeads = (grid, library, count, chosen, choose) => {
  const { layers, heads } = library;
  const weights = library.weights(count);
  if (grid.childElementCount !== layers * (heads + 1)) {
    grid.replaceChildren();
    grid.style.setProperty("--columns", heads);
    for (let layer = 0; layer < layers; layer += 1) {
      const name = document.createElement("span");
      name.className = "row-name";
      name.textContent = layer;
      grid.append(name);
      for (let head = 0; head < heads; head += 1) {
        const button = document.createElement("button");
        button.type = "button";
        button.className = "map";
        button.title = `layer ${layer}, head ${head}`;
        button.setAttribute("aria-label", `layer ${layer}, head ${head}`);
        button.append(document.createElement("canvas"));
        button.addEventListener("click", () => choose(layer, head));
        grid.append(button);
      }
    }
    grid.addEventListener("keydown", (event) => {
      const maps = [...grid.querySelectorAll("button")];
      const from = maps.indexOf(document.activeElement);
      const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -heads, ArrowDown: heads }[event.key];
      if (from < 0 || step === undefined || !maps[from + step]) return;
      event.preventDefault();
      maps[from + step].click();
      maps[from + step].focus();
    });
  }
  [...grid.querySelectorAll("button")].forEach((button, index) => {
    const canvas = button.firstChild;
    Object.assign(canvas, { width: count, height: count });
    const context = canvas.getContext("2d");
    const image = context.createImageData(count, count);
    for (let cell = 0; cell < count * count; cell += 1) {
      const weight = weights[index * count * count + cell];
      image.data.set([...look.shades[Math.min(255, Math.round(255 * Math.sqrt(weight)))], 255], 4 * cell);
    }
    context.putImageData(image, 0, 0);
    const on = index === chosen[0] * heads + chosen[1];
    button.setAttribute("aria-pressed", String(on));
    button.tabIndex = on ? 0 : -1;
  });
};
