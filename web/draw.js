// Pictures of one plan on canvases: ribbons between tokens or points, the plan with received mass above it, the error after
// every round. Lengths are in CSS pixels; nothing here knows where a plan comes from.
"use strict";

const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'Noto Sans', Arial, sans-serif";
const LEFT = 64;
const BARS = 84;
const FOOT = 62;

const isDark = () => {
  const set = document.documentElement.dataset.theme;
  return set ? set === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
};

const themes = JSON.parse(part("theme").textContent);
const theme = () => themes[isDark() ? "dark" : "light"];

const rgbOf = (text) => [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));

// 256 colours of the report's ramp, for the root of a weight.
const shadesOf = (stops) => Array.from({ length: 256 }, (_, level) => {
  const place = (level / 255) * (stops.length - 1);
  const below = Math.min(Math.floor(place), stops.length - 2);
  return stops[below].map((from, index) => Math.round(from + (place - below) * (stops[below + 1][index] - from)));
});

const look = { dark: null };
const refreshLook = () => {
  if (look.dark === isDark()) return look;
  const { axis, range, title } = theme();
  Object.assign(look, {
    dark: isDark(),
    ink: title.color,
    faint: axis.labelColor,
    line: axis.gridColor,
    colours: [range.category[0], range.category[1]],
    shades: shadesOf(range.heatmap.map(rgbOf)),
  });
  return look;
};

// The canvas's context, cleared, at the screen's resolution.
const begin = (canvas, width, height) => {
  const ratio = window.devicePixelRatio || 1;
  const [across, down] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== across || canvas.height !== down) {
    canvas.width = across;
    canvas.height = down;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  context.textBaseline = "middle";
  return context;
};

const widths = new Map();
const fitted = (context, text, room, size) => {
  const key = `${size} ${Math.round(room)} ${text}`;
  if (!widths.has(key)) {
    if (widths.size > 4000) widths.clear();
    let shown = text;
    while (shown.length > 1 && context.measureText(shown).width > room) shown = `${shown.slice(0, -2)}\u2026`;
    widths.set(key, shown);
  }
  return widths.get(key);
};

const shown = (token) => token.replace(/^ /, "").replace(/\n/g, "\u21b5") || "\u2423";

const number = (value) => {
  if (!Number.isFinite(value)) return "\u2013";
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size >= 1e5 || size < 1e-3) return value.toExponential(1).replace("e+", "e");
  return String(Number(value.toPrecision(4)));
};

// Heights of a stack that fills `height`, with at least a hair's gap between its pieces.
const stack = (masses, height, gap) => {
  const total = masses.reduce((sum, mass) => sum + mass, 0) || 1;
  const scale = (height - gap * (masses.length - 1)) / total;
  let at = 0;
  return masses.map((mass) => {
    const place = { from: at, size: mass * scale };
    at += place.size + gap;
    return place;
  });
};

// Labels of a stack, those of small pieces left out where they would overlap; what is chosen always stands.
const labelStack = (context, places, texts, x, align, chosen) => {
  let last = -Infinity;
  context.textAlign = align;
  const order = places.map((place, index) => ({ index, y: place.from + place.size / 2 }));
  const forced = chosen === null ? null : order[chosen];
  for (const { index, y } of order) {
    const near = forced && index !== chosen && Math.abs(y - forced.y) < 11;
    if (index !== chosen && (near || y - last < 11 || places[index].size < 1)) continue;
    context.font = `${index === chosen ? "600 " : ""}11px ${FONT}`;
    context.fillStyle = index === chosen ? look.ink : look.faint;
    context.fillText(fitted(context, texts[index], 78, index === chosen ? 1 : 0), x, y);
    last = Math.max(last, y);
  }
};

// Ribbons are filled by hand, a thousand of them in a few milliseconds: every column of pixels gets the edges of all ribbons,
// whose running sum is how much covers a pixel. Two pixels wide, as curves are smooth.
const FIELD = document.createElement("canvas");
const field = { edges: new Float32Array(0), bends: [] };
// 1 - exp(-x) as a byte, for x up to 8.
const COVERED = Uint8Array.from({ length: 1025 }, (_, index) => Math.round(255 * (1 - Math.exp(-index / 128))));

const bendsOf = (columns) => {
  if (field.bends.length === columns) return field.bends;
  // Share of the way down at each share of the way across, of a curve that begins and ends level.
  field.bends = Float32Array.from({ length: columns }, (_, column) => {
    const across = (column + 0.5) / columns;
    let [low, high] = [0, 1];
    for (let step = 0; step < 20; step += 1) {
      const t = (low + high) / 2;
      if (1.5 * t * (1 - t) + t ** 3 < across) low = t;
      else high = t;
    }
    return 3 * low ** 2 - 2 * low ** 3;
  });
  return field.bends;
};

// ribbons: five numbers each, [top left, size left, top right, size right, strength].
const fillRibbons = (ribbons, count, columns, height, rgb) => {
  const room = height + 2;
  if (field.edges.length !== columns * room) field.edges = new Float32Array(columns * room);
  const { edges } = field;
  const bends = bendsOf(columns);
  edges.fill(0);
  const edge = (at, y, value) => {
    const whole = y | 0;
    const part = value * (y - whole);
    edges[at + whole] += value - part;
    edges[at + whole + 1] += part;
  };
  for (let index = 0; index < 5 * count; index += 5) {
    const top = ribbons[index];
    const size = ribbons[index + 1];
    const fall = ribbons[index + 2] - top;
    const growth = ribbons[index + 3] - size;
    const strength = ribbons[index + 4];
    for (let column = 0, at = 0; column < columns; column += 1, at += room) {
      const y = top + fall * bends[column];
      edge(at, y, strength);
      edge(at, y + size + growth * bends[column], -strength);
    }
  }
  if (FIELD.width !== columns || FIELD.height !== height) Object.assign(FIELD, { width: columns, height });
  const context = FIELD.getContext("2d");
  const image = context.createImageData(columns, height);
  const pixels = new Uint32Array(image.data.buffer);
  const [r, g, b] = rgb;
  const ink = r | (g << 8) | (b << 16);
  for (let column = 0; column < columns; column += 1) {
    let sum = 0;
    for (let y = 0; y < height; y += 1) {
      sum += edges[column * room + y];
      pixels[y * columns + column] = ink | (COVERED[sum >= 8 ? 1024 : (128 * sum) | 0] << 24);
    }
  }
  context.putImageData(image, 0, 0);
};

const ribbonList = new Float32Array(5 * 32 * 32);

// Mass as ribbons from queries (left) to keys (right); a key is as tall as the mass that it receives.
const drawRibbons = (canvas, plan, tokens, side, at) => {
  const width = canvas.clientWidth;
  const height = Number(canvas.dataset.height);
  const context = begin(canvas, width, height);
  const { queries, keys, coupling, received } = plan;
  const [x0, x1] = [88, width - 88];
  const gap = Math.min(3, 100 / Math.max(queries, keys));
  const left = stack(Array.from({ length: queries }, () => 1), height, gap);
  const right = stack([...received], height, gap);
  const scale = left[0].size;
  const rightScale = right.reduce((sum, { size }) => sum + size, 0) / (received.reduce((a, b) => a + b, 0) || 1);
  const filled = new Float64Array(keys);
  const focus = at !== null;
  let count = 0;
  for (let i = 0; i < queries; i += 1) {
    let used = left[i].from;
    for (let j = 0; j < keys; j += 1) {
      const mass = coupling[i * keys + j];
      const [tall, tallRight] = [mass * scale, mass * rightScale];
      if (tall > 0.02) {
        // What is read stands out; else weights that carry much do.
        const chosen = focus && at.query === i;
        const along = focus && at.key === j;
        const one = at && (at.query === null || at.key === null);
        const strength = focus ? (chosen || (one && along) ? 1.6 : along ? 0.6 : 0.06) : 0.35 + 0.75 * Math.min(1, mass);
        ribbonList.set([used, tall, right[j].from + filled[j], tallRight, strength], 5 * count);
        count += 1;
      }
      used += tall;
      filled[j] += tallRight;
    }
  }
  canvas.place = { left, right, middle: (x0 + x1) / 2 };
  fillRibbons(ribbonList, count, Math.max(8, Math.round((x1 - x0) / 2)), height, rgbOf(look.colours[side]));
  context.drawImage(FIELD, x0, 0, x1 - x0, height);
  context.fillStyle = look.colours[side];
  for (const { from, size } of left) context.fillRect(x0 - 5, from, 4, size);
  for (const { from, size } of right) context.fillRect(x1 + 1, from, 4, Math.max(size, 0.75));
  labelStack(context, left, tokens.queries, x0 - 10, "right", at ? at.query : null);
  labelStack(context, right, tokens.keys, x1 + 10, "left", at ? at.key : null);
};

const CELL = document.createElement("canvas");

// The plan, a row a query, under bars of the mass that each key receives; dashes where a cap is.
const drawPlan = (canvas, plan, tokens, side, at, lines) => {
  const width = canvas.clientWidth;
  const { queries, keys, coupling, received } = plan;
  const cell = Math.min((width - LEFT - 4) / keys, 300 / Math.min(queries, keys), 44);
  const [wide, tall] = [cell * keys, cell * queries];
  const context = begin(canvas, width, BARS + tall + FOOT);
  Object.assign(canvas.place ??= {}, { cell, left: LEFT, top: BARS });
  if (CELL.width !== keys || CELL.height !== queries) Object.assign(CELL, { width: keys, height: queries });
  const small = CELL.getContext("2d");
  const image = small.createImageData(keys, queries);
  for (let index = 0; index < coupling.length; index += 1) {
    const weight = coupling[index];
    const [r, g, b] = look.shades[Math.max(0, Math.min(255, Math.round(255 * Math.sqrt(weight))))];
    image.data.set([r, g, b, 255], 4 * index);
  }
  small.putImageData(image, 0, 0);
  context.imageSmoothingEnabled = false;
  context.drawImage(CELL, LEFT, BARS, wide, tall);
  const top = Math.max(2, ...received, ...lines);
  const high = BARS - 20;
  const y = (mass) => BARS - 4 - (mass / top) * high;
  context.fillStyle = look.colours[side];
  for (let j = 0; j < keys; j += 1) {
    context.globalAlpha = at && at.key === j ? 1 : 0.8;
    context.fillRect(LEFT + j * cell + 0.5, y(received[j]), Math.max(cell - 1, 0.5), BARS - 4 - y(received[j]));
  }
  context.globalAlpha = 1;
  context.strokeStyle = look.ink;
  context.setLineDash([4, 3]);
  for (const line of lines) {
    context.beginPath();
    context.moveTo(LEFT, y(line));
    context.lineTo(LEFT + wide, y(line));
    context.stroke();
  }
  context.setLineDash([]);
  context.font = `11px ${FONT}`;
  context.fillStyle = look.faint;
  context.textAlign = "right";
  const most = Math.max(...received);
  context.fillText(number(most), LEFT - 6, Math.max(8, y(most)));
  context.fillText("0", LEFT - 6, BARS - 8);
  const every = Math.max(1, Math.ceil(11 / cell));
  for (let i = 0; i < queries; i += 1) {
    if (i % every !== 0 && !(at && at.query === i)) continue;
    context.fillStyle = at && at.query === i ? look.ink : look.faint;
    context.fillText(fitted(context, tokens.queries[i], LEFT - 8, 0), LEFT - 6, BARS + (i + 0.5) * cell);
  }
  for (let j = 0; j < keys; j += 1) {
    if (j % every !== 0 && !(at && at.key === j)) continue;
    context.fillStyle = at && at.key === j ? look.ink : look.faint;
    context.save();
    context.translate(LEFT + (j + 0.5) * cell, BARS + tall + 6);
    context.rotate(-Math.PI / 2);
    context.fillText(fitted(context, tokens.keys[j], FOOT - 8, 0), 0, 0);
    context.restore();
  }
  if (at && at.query !== null && at.key !== null) {
    context.strokeStyle = look.ink;
    context.lineWidth = 2;
    context.strokeRect(LEFT + at.key * cell, BARS + at.query * cell, cell, cell);
    context.lineWidth = 1;
  }
};

// The error of the columns after each round of the plain update, on a logarithmic scale.
const drawCurve = (canvas, plan, side, rounds) => {
  const width = canvas.clientWidth;
  const height = 150;
  const context = begin(canvas, width, height);
  const { curve } = plan;
  const [x0, x1, y0, y1] = [40, width - 8, 10, height - 30];
  context.font = `11px ${FONT}`;
  context.fillStyle = look.faint;
  context.strokeStyle = look.line;
  const floor = -12;
  const y = (value) => y0 + ((1 - Math.max(floor, Math.min(1, Math.log10(Math.max(value, 1e-300))))) / (1 - floor)) * (y1 - y0);
  context.textAlign = "right";
  for (const exponent of [0, -4, -8, -12]) {
    context.beginPath();
    context.moveTo(x0, y(10 ** exponent));
    context.lineTo(x1, y(10 ** exponent));
    context.stroke();
    context.fillText(exponent === 0 ? "1" : `1e${exponent}`, x0 - 5, y(10 ** exponent));
  }
  const most = Math.max(10, curve.length);
  const x = (round) => x0 + ((round - 1) / (most - 1)) * (x1 - x0);
  context.textAlign = "center";
  for (const round of [1, Math.round((1 + most) / 2), most]) context.fillText(String(round), Math.min(x(round), x1 - 6), y1 + 11);
  context.fillText("round", (x0 + x1) / 2, height - 7);
  if (curve.length === 0) return;
  context.strokeStyle = look.colours[side];
  context.lineWidth = 2;
  context.beginPath();
  curve.forEach((value, index) => { context[index === 0 ? "moveTo" : "lineTo"](x(index + 1), y(value)); });
  context.stroke();
  context.lineWidth = 1;
  context.fillStyle = look.colours[side];
  curve.forEach((value, index) => {
    context.beginPath();
    context.arc(x(index + 1), y(value), index + 1 === rounds ? 4.5 : 2, 0, 2 * Math.PI);
    context.fill();
  });
};

// Points in the unit square, with lines as wide as the mass that goes along them.
const drawPoints = (canvas, plan, points, side, chosen) => {
  const width = canvas.clientWidth;
  const size = Math.min(width, 440);
  const context = begin(canvas, width, size);
  const left = (width - size) / 2;
  Object.assign(canvas.place ??= {}, { left, size });
  const at = ([x, y]) => [left + 14 + x * (size - 28), 14 + y * (size - 28)];
  context.strokeStyle = look.line;
  context.strokeRect(left + 0.5, 0.5, size - 1, size - 1);
  const { queries, keys } = points;
  if (plan) {
    context.strokeStyle = look.colours[side];
    context.lineCap = "round";
    for (let i = 0; i < queries.length; i += 1) {
      for (let j = 0; j < keys.length; j += 1) {
        const mass = plan.coupling[i * keys.length + j];
        if (mass < 0.004) continue;
        context.globalAlpha = Math.min(0.85, 0.15 + 0.7 * mass);
        context.lineWidth = Math.max(0.6, 9 * mass);
        context.beginPath();
        context.moveTo(...at(queries[i]));
        context.lineTo(...at(keys[j]));
        context.stroke();
      }
    }
  }
  context.globalAlpha = 1;
  context.lineWidth = 1.5;
  context.strokeStyle = look.ink;
  queries.forEach((point, index) => {
    context.beginPath();
    context.arc(...at(point), 6, 0, 2 * Math.PI);
    context.fillStyle = look.dark ? "#14171c" : "#ffffff";
    context.fill();
    if (chosen && chosen.kind === "queries" && chosen.index === index) context.lineWidth = 3.5;
    context.stroke();
    context.lineWidth = 1.5;
  });
  keys.forEach((point, index) => {
    // A key is as large as what it receives.
    const half = plan ? Math.min(16, 3 + 5 * Math.sqrt(plan.received[index])) : 6;
    const [x, y] = at(point);
    context.fillStyle = look.ink;
    context.fillRect(x - half, y - half, 2 * half, 2 * half);
    if (chosen && chosen.kind === "keys" && chosen.index === index) {
      context.lineWidth = 2.5;
      context.strokeRect(x - half - 4, y - half - 4, 2 * half + 8, 2 * half + 8);
      context.lineWidth = 1.5;
    }
  });
};
