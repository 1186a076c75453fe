// The page: what is chosen, what follows from it once a frame, and the address that keeps it.
"use strict";

const RULES = {
  free: { words: "free: keys take what comes", parts: [] },
  exact: { words: "exact: every key the same", parts: ["rounds"] },
  capped: { words: "capped: at most CAP", parts: ["cap", "rounds"] },
  bounded: { words: "bounded: between two shares", parts: ["lower", "upper", "rounds"] },
  relaxed: { words: "relaxed: unevenness has a price", parts: ["strength", "rounds"] },
  elastic: { words: "elastic: a few rounds of correction", parts: ["lambda", "steps"] },
  online: { words: "online: row by row, at most CAP", parts: ["cap"] },
  prefix: { words: "prefix: exact on every leading block", parts: [] },
};
const HARD = 61; // place on the slider of orders behind the largest order
const orderOf = (place) => 1 + place / 20;

// Sliders: what they mean, their range, and how a value is shown; `log` ones move the exponent of 10.
const SLIDERS = {
  temperature: { words: "temperature", least: -1.7, most: 1, step: 0.01, log: true },
  order: { words: "order of the entropy", least: 0, most: HARD, step: 1,
    show: (place) => (place >= HARD ? "hard" : place === 0 ? "1 (softmax)" : place === 20 ? "2 (sparsemax)" : orderOf(place).toFixed(2)) },
  cap: { words: "cap, units of mass", least: 1, most: 8, step: 0.05 },
  lower: { words: "lower bound, shares", least: 0, most: 1, step: 0.01 },
  upper: { words: "upper bound, shares", least: 1, most: 6, step: 0.05 },
  strength: { words: "strength rho", least: -2, most: 1.5, step: 0.02, log: true },
  lambda: { words: "lambda", least: 0, most: 1.95, step: 0.01 },
  steps: { words: "rounds", least: 0, most: 32, step: 1 },
  pairCap: { words: "cap of a single weight", least: 0.05, most: 1, step: 0.01, show: (value) => (value >= 1 ? "none" : tidy(value)) },
  sink: { words: "logit of a sink", least: -6, most: 6, step: 0.05, show: (value) => (value <= NO_SINK ? "none" : tidy(value)) },
  rounds: { words: "rounds", least: 0, most: 40, step: 1, show: (value) => (value === 0 ? "to the tolerance" : String(value)) },
};
const NO_SINK = -6; // place on the slider of sinks that means none
const valueOf = (name, place) => (SLIDERS[name].log ? 10 ** place : place);
const tidy = (value) => String(Number(value.toPrecision(3)));
const show = (name, place) => (SLIDERS[name].show ? SLIDERS[name].show(place) : tidy(valueOf(name, place)));

const START = {
  source: "sentence",
  sentence: "The harbour keeps the ships, the ships keep the sailors, and the sailors keep the songs of the harbour.",
  head: [1, 0],
  captured: 0,
  points: drawCloud(7, 12, 12),
  seed: 7,
  paste: "sand, clay, stone, water\n3, 1, 0.5, 0\n2.5, 1, 0, 0.5\n2.8, 0, 1, 0\n3.1, 0.2, 0, 1",
  mask: "none",
  queryShares: "",
  keyShares: "",
  compare: true,
};
const SIDE = { rule: "free", temperature: 0, order: 0, cap: 2, lower: 0.5, upper: 1.5, strength: 0, lambda: 0.5, steps: 4, rounds: 0, pairCap: 1, sink: NO_SINK };
const state = { ...START, sides: [{ ...SIDE, temperature: -0.301 }, { ...SIDE, temperature: -0.301, rule: "capped", cap: 1.5 }] };

// A method as the library and the program spell it.
const methodOf = (side) => {
  const { parts } = RULES[side.rule];
  const hard = side.order >= HARD;
  const row = hard ? "hard" : side.order === 0 ? "softmax" : `entmax:${tidy(orderOf(side.order))}`;
  const numbers = { capped: ["cap"], online: ["cap"], bounded: ["lower", "upper"], relaxed: ["strength"], elastic: ["lambda", "steps"] };
  const list = (numbers[side.rule] ?? []).map((name) => tidy(valueOf(name, side[name]))).join(",");
  const braces = [`temperature=${tidy(valueOf("temperature", side.temperature))}`];
  if (side.pairCap < 1) braces.push(`entry_cap=${tidy(side.pairCap)}`);
  if (parts.includes("rounds") && side.rounds > 0) braces.push(`rounds=${side.rounds}`);
  return `${row}/${side.rule}${list ? `:${list}` : ""}{${braces.join(",")}}`;
};

// Shares as they are typed, one a query or key, so that they add up to `total`; empty: null. { error } where they do not fit.
const sharesOf = (text, count, total, what) => {
  if (!text.trim()) return null;
  const found = text.trim().split(/[\s,;]+/).map(Number);
  const sum = found.reduce((a, b) => a + b, 0);
  if (found.length !== count || !found.every((share) => share >= 0 && share < Infinity) || !(sum > 0)) {
    return { error: `shares of ${what} are ${count} numbers of 0 or more, not all of them 0` };
  }
  return found.map((share) => share * total / sum);
};
// What a side has beside its method: masses where its rule takes some (caps: factors, 1 in the mean), and a sink.
const massesOf = (side) => {
  const rows = sharesOf(state.queryShares, source.queries, source.queries, "queries");
  const factors = side.rule === "capped" || side.rule === "online";
  const bound = side.rule !== "free" && side.rule !== "prefix";
  const columns = bound ? sharesOf(state.keyShares, source.keys, factors ? source.keys : source.queries, "keys") : null;
  return { rows, columns, sink: side.sink > NO_SINK ? side.sink : null, error: rows?.error ?? columns?.error };
};

// ---- the address -----------------------------------------------------------------------------

const round = (value) => Math.round(value * 1000) / 1000;

const fragment = () => {
  const words = new URLSearchParams({ source: state.source });
  if (state.source === "sentence") {
    words.set("text", state.sentence);
    words.set("head", state.head.join("."));
  }
  if (state.source === "captured") words.set("head", String(state.captured));
  if (state.source === "points") {
    for (const kind of ["queries", "keys"]) words.set(kind, state.points[kind].flat().map(round).join(","));
  }
  if (state.source === "paste") words.set("scores", state.paste);
  words.set("mask", state.mask);
  for (const name of ["queryShares", "keyShares"]) if (state[name].trim()) words.set(name, state[name]);
  state.sides.forEach((side, index) => {
    if (index === 1 && !state.compare) return;
    const beside = ["pairCap", "sink"].filter((name) => side[name] !== SIDE[name]);
    const parts = ["temperature", "order", ...RULES[side.rule].parts, ...beside];
    words.set("ab"[index], [side.rule, ...parts.map((name) => `${name}:${round(side[name])}`)].join(" "));
  });
  return words.toString();
};

const readPoints = (text) => {
  const flat = text.split(",").map(Number);
  if (flat.length < 2 || flat.length > 2 * LIMIT || flat.length % 2 || !flat.every((at) => at >= 0 && at <= 1)) return null;
  return Array.from({ length: flat.length / 2 }, (_, index) => flat.slice(2 * index, 2 * index + 2));
};

// Takes from an address what makes sense and leaves the rest as it is.
const readFragment = (text) => {
  const words = new URLSearchParams(text);
  const source = words.get("source");
  if (!["sentence", "captured", "points", "paste"].includes(source)) return;
  state.source = source;
  if (source === "sentence") {
    state.sentence = (words.get("text") ?? state.sentence).slice(0, 2000);
    const head = (words.get("head") ?? "").split(".").map(Number);
    if (head.length === 2 && head.every((at) => Number.isInteger(at) && at >= 0)) state.head = head;
  }
  if (source === "captured") state.captured = words.get("head") === "1" ? 1 : 0;
  if (source === "points") {
    const [queries, keys] = ["queries", "keys"].map((kind) => readPoints(words.get(kind) ?? ""));
    if (queries && keys) state.points = { queries, keys };
  }
  if (source === "paste") state.paste = (words.get("scores") ?? state.paste).slice(0, 20000);
  if (["none", "causal"].includes(words.get("mask"))) state.mask = words.get("mask");
  for (const name of ["queryShares", "keyShares"]) state[name] = (words.get(name) ?? "").slice(0, 2000);
  state.compare = words.has("b");
  ["a", "b"].forEach((name, index) => {
    const [rule, ...parts] = (words.get(name) ?? "").split(" ");
    if (!RULES[rule]) return;
    state.sides[index] = { ...SIDE, rule };
    for (const item of parts) {
      const [key, value] = item.split(":");
      const slider = SLIDERS[key];
      if (slider && value !== "" && Number(value) >= slider.least && Number(value) <= slider.most) state.sides[index][key] = Number(value);
    }
  });
};

// ---- the parts of a side ---------------------------------------------------------------------

const NUMBERS = [
  ["rowError", "error of the rows"], ["columnError", "error of the columns"], ["gap", "gap to a lower bound"],
  ["cost", "cost, sum of P C"], ["primal", "objective"], ["entropy", "entropy of a row, nats"],
  ["support", "positive weights a row"], ["receiverMax", "most a key receives"], ["receiverMin", "least a key receives"],
  ["rounds", "rounds of the solver"],
];

let library = null;
let source = null;
const plans = [null, null];
const panels = [];
const reading = { query: null, key: null };
let chosenPoint = { kind: "queries", index: 0 };
const timings = [];

const element = (name, className, parent, text) => {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  parent.append(made);
  return made;
};

const buildSide = (index) => {
  const article = part("side").content.firstElementChild.cloneNode(true);
  const letter = "AB"[index];
  const panel = { index, article, sliders: {}, values: {} };
  const find = (selector) => article.querySelector(selector);
  article.setAttribute("aria-label", `Rule ${letter}`);
  article.dataset.side = letter;
  find(".letter").textContent = letter;
  const controls = find(".controls");
  const ruleBox = element("label", "rule", controls, "columns ");
  panel.rule = element("select", "", ruleBox);
  for (const [name, { words }] of Object.entries(RULES)) element("option", "", panel.rule, words).value = name;
  panel.rule.addEventListener("change", () => { state.sides[index].rule = panel.rule.value; touch(); });
  for (const [name, slider] of Object.entries(SLIDERS)) {
    const box = element("label", "slider", controls);
    element("span", "", box, slider.words);
    const value = element("span", "value", box);
    const input = element("input", "", box);
    Object.assign(input, { type: "range", min: slider.least, max: slider.most, step: slider.step });
    input.dataset.name = name;
    input.addEventListener("input", () => { state.sides[index][name] = Number(input.value); touch(); });
    panel.sliders[name] = { box, input, value };
  }
  Object.assign(panel, {
    method: find(".method"), word: find(".word"), error: find(".error"),
    ribbons: find(".ribbons canvas"), ribbonWords: find(".ribbons figcaption"),
    plan: find(".plan canvas"), reading: find(".reading"),
    curve: find(".curve canvas"), curveWords: find(".curve figcaption"),
  });
  for (const [name, words] of NUMBERS) {
    const pair = element("div", "", find(".numbers"));
    element("dt", "", pair, words);
    panel.values[name] = element("dd", "", pair);
  }
  listenPlan(panel);
  listenRibbons(panel);
  listenPoints(panel);
  part("sides").append(article);
  return panel;
};

const clamp = (value, most) => Math.max(0, Math.min(most - 1, value));

const read = (query, key) => {
  if (reading.query === query && reading.key === key) return;
  Object.assign(reading, { query, key });
  redraw();
};

const listenPlan = ({ plan }) => {
  const cellAt = (event) => {
    const { cell, left, top } = plan.place;
    return [clamp(Math.floor((event.offsetY - top) / cell), source.queries), clamp(Math.floor((event.offsetX - left) / cell), source.keys)];
  };
  for (const kind of ["pointerdown", "pointermove"]) plan.addEventListener(kind, (event) => { if (source && plan.place) read(...cellAt(event)); });
  plan.addEventListener("pointerleave", () => { if (document.activeElement !== plan) read(null, null); });
  plan.addEventListener("blur", () => read(null, null));
  plan.addEventListener("keydown", (event) => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!step || !source) return;
    event.preventDefault();
    if (reading.query === null || reading.key === null) read(reading.query ?? 0, reading.key ?? 0);
    else read(clamp(reading.query + step[0], source.queries), clamp(reading.key + step[1], source.keys));
  });
};

const nearest = (place, [x, y]) => {
  let best = { distance: 24 };
  for (const kind of ["queries", "keys"]) {
    state.points[kind].forEach(([u, v], index) => {
      const distance = Math.hypot(place.left + 14 + u * (place.size - 28) - x, 14 + v * (place.size - 28) - y);
      if (distance < best.distance) best = { distance, kind, index };
    });
  }
  return best.kind ? best : null;
};

const movePoint = (point) => {
  state.points[chosenPoint.kind][chosenPoint.index] = point.map((at) => Math.min(1, Math.max(0, at)));
  touch();
};

// Of ribbons one query or one key is read: by the pointer on its side, or by keys (left and right choose the side).
const listenRibbons = ({ ribbons }) => {
  const on = () => source && state.source !== "points";
  ribbons.addEventListener("pointermove", (event) => {
    if (!on() || !ribbons.place) return;
    const { left, right, middle } = ribbons.place;
    const places = event.offsetX < middle ? left : right;
    const after = places.findIndex(({ from, size }) => event.offsetY < from + size);
    const index = after < 0 ? places.length - 1 : after;
    if (event.offsetX < middle) read(index, null);
    else read(null, index);
  });
  ribbons.addEventListener("pointerleave", () => { if (on()) read(null, null); });
  ribbons.addEventListener("blur", () => { if (on()) read(null, null); });
  ribbons.addEventListener("keydown", (event) => {
    const step = { ArrowUp: -1, ArrowDown: 1, ArrowLeft: 0, ArrowRight: 0 }[event.key];
    if (step === undefined || !on()) return;
    event.preventDefault();
    const toKeys = event.key === "ArrowRight" || (step !== 0 && reading.query === null && reading.key !== null);
    const at = (toKeys ? reading.key : reading.query) ?? reading.key ?? reading.query ?? -step;
    if (toKeys) read(null, clamp(at + step, source.keys));
    else read(clamp(at + step, source.queries), null);
  });
};

// Points are drawn where ribbons are; dragged by pointer, chosen and moved by keys.
const listenPoints = ({ ribbons }) => {
  let dragged = false;
  ribbons.addEventListener("pointerdown", (event) => {
    const found = state.source === "points" && nearest(ribbons.place, [event.offsetX, event.offsetY]);
    if (!found) return;
    chosenPoint = found;
    dragged = true;
    ribbons.setPointerCapture(event.pointerId);
    event.preventDefault();
    ribbons.focus();
    touch();
  });
  ribbons.addEventListener("pointermove", (event) => {
    if (!dragged) return;
    const { left, size } = ribbons.place;
    movePoint([(event.offsetX - left - 14) / (size - 28), (event.offsetY - 14) / (size - 28)]);
  });
  for (const kind of ["pointerup", "pointercancel"]) ribbons.addEventListener(kind, () => { dragged = false; });
  ribbons.addEventListener("keydown", (event) => {
    if (state.source !== "points") return;
    const all = ["queries", "keys"].flatMap((kind) => state.points[kind].map((point, index) => ({ kind, index })));
    const at = all.findIndex(({ kind, index }) => kind === chosenPoint.kind && index === chosenPoint.index);
    const turn = { PageUp: -1, PageDown: 1 }[event.key];
    const step = { ArrowUp: [0, -0.02], ArrowDown: [0, 0.02], ArrowLeft: [-0.02, 0], ArrowRight: [0.02, 0] }[event.key];
    if (!turn && !step) return;
    event.preventDefault();
    if (turn) {
      chosenPoint = all[(at + turn + all.length) % all.length];
      touch();
    } else {
      const [x, y] = state.points[chosenPoint.kind][chosenPoint.index];
      movePoint([x + step[0], y + step[1]]);
    }
  });
};

// ---- one frame -------------------------------------------------------------------------------

const capLines = (side) => {
  if (state.keyShares.trim()) return []; // a line for every key by itself
  if (side.rule === "capped" || side.rule === "online") return [side.cap];
  const share = source.queries / source.keys;
  if (side.rule === "bounded") return [side.lower * share, side.upper * share];
  return side.rule === "exact" ? [share] : [];
};

const name = (tokens, index) => `\u201c${tokens[index]}\u201d`;

const tellSide = (panel, plan) => {
  const side = state.sides[panel.index];
  panel.method.textContent = plan.method;
  panel.error.textContent = plan.error ? `${plan.error}.` : "";
  panel.article.classList.toggle("failed", Boolean(plan.error));
  panel.word.textContent = plan.error ? "refused" : plan.word.replaceAll("_", " ");
  panel.word.title = plan.sentence ?? "";
  panel.rule.value = side.rule;
  for (const [key, { box, input, value }] of Object.entries(panel.sliders)) {
    box.hidden = !(["temperature", "order", "pairCap", "sink"].includes(key) || RULES[side.rule].parts.includes(key));
    input.value = side[key];
    value.textContent = show(key, side[key]);
    input.setAttribute("aria-valuetext", value.textContent);
  }
  if (plan.error) return;
  for (const [key] of NUMBERS) panel.values[key].textContent = number(plan.facts[key]);
  // Rules that promise nothing of the columns have a distance there, and no error.
  const promised = !["free", "elastic", "prefix"].includes(side.rule);
  panel.values.columnError.previousSibling.textContent = promised ? "error of the columns" : "columns from even shares";
};

const most = ({ received }) => received.reduce((best, mass, index) => (mass > received[best] ? index : best), 0);

// What is read: a weight, a query, a key, or the key that receives most.
const wordsOf = ({ coupling, received, queries, keys }, tokens, at) => {
  const best = (weights) => weights.reduce((top, weight, index) => (weight > weights[top] ? index : top), 0);
  if (at === null) {
    const top = most({ received });
    return `${name(tokens.keys, top)} receives most: ${number(received[top])} of ${queries}`;
  }
  if (at.key === null) {
    const row = coupling.subarray(at.query * keys, (at.query + 1) * keys);
    return `${name(tokens.queries, at.query)} gives most to ${name(tokens.keys, best(row))}: ${number(row[best(row)])}`;
  }
  const gets = `receives ${number(received[at.key])}`;
  if (at.query === null) {
    const column = Array.from({ length: queries }, (_, query) => coupling[query * keys + at.key]);
    return `${name(tokens.keys, at.key)} ${gets}, most from ${name(tokens.queries, best(column))}: ${number(column[best(column)])}`;
  }
  return `${name(tokens.queries, at.query)} \u2192 ${name(tokens.keys, at.key)}: ${number(coupling[at.query * keys + at.key])}; the key ${gets}`;
};

const drawSide = (panel, plan) => {
  const { index } = panel;
  if (plan.error) return;
  const { tokens } = source;
  const at = reading.query === null && reading.key === null ? null : reading;
  const top = most(plan);
  panel.ribbons.style.touchAction = state.source === "points" ? "none" : "";
  if (state.source === "points") {
    drawPoints(panel.ribbons, plan, state.points, index, chosenPoint);
    panel.ribbonWords.textContent = "Lines are as wide as the mass that they carry, squares as large as the mass that they receive.";
  } else {
    panel.ribbons.dataset.height = Math.max(220, Math.min(470, 15 * Math.max(source.queries, source.keys)));
    drawRibbons(panel.ribbons, plan, tokens, index, at);
    panel.ribbonWords.textContent = "From queries (left) to keys (right); a key is as tall as the mass that it receives.";
  }
  panel.ribbons.setAttribute("aria-label", `Transport from ${plan.queries} queries to ${plan.keys} keys; ${name(tokens.keys, top)} `
    + `receives most, ${number(plan.received[top])} of ${plan.queries}.`);
  drawPlan(panel.plan, plan, tokens, index, at, capLines(state.sides[index]));
  panel.plan.setAttribute("aria-label", "The plan, a row a query, below bars of the mass that keys receive: arrow keys read weights");
  panel.reading.textContent = wordsOf(plan, tokens, at);
  drawCurve(panel.curve, plan, index, plan.facts.rounds);
  panel.curve.parentElement.hidden = plan.curve.length === 0;
  panel.curve.parentElement.previousElementSibling.hidden = plan.curve.length === 0;
  panel.curveWords.textContent = "After each round of the plain update, whatever solver was chosen.";
  panel.curve.setAttribute("aria-label", plan.curve.length === 0 ? "No rounds" : `Error of the columns after ${plan.curve.length} rounds: `
    + `${number(plan.curve[plan.curve.length - 1])}`);
};

const shownSides = () => (state.compare ? panels : panels.slice(0, 1));

const redraw = () => {
  refreshLook();
  for (const panel of shownSides()) if (plans[panel.index]) drawSide(panel, plans[panel.index]);
};

const CURVE = 60;
const solveAll = () => {
  library.setScores(source.scores);
  for (const { index } of shownSides()) {
    const method = methodOf(state.sides[index]);
    const masses = massesOf(state.sides[index]);
    const asked = { queries: source.queries, keys: source.keys, causal: state.mask === "causal" && source.square, masses };
    plans[index] = { ...(masses.error ? { error: masses.error } : library.solve(index, method, asked, CURVE)), method, masses };
  }
};

// Words for a reader who does not see the pictures, once things stand still.
let speaking = 0;
const speak = () => {
  clearTimeout(speaking);
  speaking = setTimeout(() => {
    part("said").textContent = shownSides().map(({ index }) => {
      const plan = plans[index];
      if (plan.error) return `Rule ${"AB"[index]}: ${plan.error}.`;
      const top = most(plan);
      return `Rule ${"AB"[index]}, ${plan.method}: ${name(source.tokens.keys, top)} receives most, ${number(plan.received[top])} of ${plan.queries}.`;
    }).join(" ");
    history.replaceState(null, "", `#${fragment()}`);
  }, 500);
};

const frame = () => {
  const begun = performance.now();
  if (state.source === "points") source = pointScores(state.points);
  solveAll();
  for (const panel of shownSides()) tellSide(panel, plans[panel.index]);
  redraw();
  const { rows, columns, sink } = plans[0].masses;
  part("command").textContent = `otattn plan scores.npy --method '${methodOf(state.sides[0])}'`
    + `${rows ? " --row-mass queries.npy" : ""}${columns ? " --column-mass keys.npy" : ""}${sink === null ? "" : ` --sink ${tidy(sink)}`}`;
  speak();
  timings.push(performance.now() - begun);
  if (timings.length > 600) timings.shift();
};

let asked = false;
const touch = () => {
  if (asked || !library || !source) return;
  asked = true;
  requestAnimationFrame(() => { asked = false; frame(); });
};

// ---- sources ---------------------------------------------------------------------------------

let modelReady = null;
const openModel = () => (modelReady ??= unpack("model").then((file) => library.openModel(file)));

const headSource = () => {
  const tokens = state.tokens.map(shown);
  const [layer, head] = state.head;
  source = { queries: tokens.length, keys: tokens.length, square: true, tokens: { queries: tokens, keys: tokens },
    scores: library.headScores(layer, head, tokens.length) };
};

const chooseHead = (layer, head) => {
  state.head = [layer, head];
  fillHeads(part("heads"), library, state.tokens.length, state.head, chooseHead);
  headSource();
  touch();
};

const readSentence = () => {
  const begun = performance.now();
  const { tokens, error } = library.read(state.sentence, LIMIT);
  part("tokens").textContent = error ? `${error}.` : "";
  if (error) return;
  state.tokens = tokens;
  part("tokens").textContent = `${tokens.length} tokens: ${tokens.map(shown).join(" \u00b7 ")}`;
  state.head = [Math.min(state.head[0], library.layers - 1), Math.min(state.head[1], library.heads - 1)];
  state.forward = performance.now() - begun;
  chooseHead(...state.head);
};

const readPaste = () => {
  try {
    source = parseScores(state.paste);
    part("paste-error").textContent = "";
    touch();
  } catch (error) {
    part("paste-error").textContent = error.message;
  }
};

const useSource = async () => {
  for (const kind of ["sentence", "captured", "points", "paste"]) part(`pane-${kind}`).hidden = kind !== state.source;
  document.querySelector(`input[name="source"][value="${state.source}"]`).checked = true;
  Object.assign(reading, { query: null, key: null });
  if (state.source === "sentence") {
    await openModel();
    refreshLook();
    readSentence();
  }
  if (state.source === "captured") source = capturedHead(state.captured);
  if (state.source === "points") source = pointScores(state.points);
  if (state.source === "paste") readPaste();
  touch();
};

const setControls = () => {
  part("sentence").value = state.sentence;
  part("paste").value = state.paste;
  part("mask").value = state.mask;
  part("query-shares").value = state.queryShares;
  part("key-shares").value = state.keyShares;
  part("compare").checked = state.compare;
  part("captured-head").value = state.captured;
  part("point-queries").value = state.points.queries.length;
  part("point-keys").value = state.points.keys.length;
  const compare = () => {
    panels[1].article.hidden = !state.compare;
    part("sides").classList.toggle("single", !state.compare);
  };
  compare();
};

const listen = () => {
  for (const input of document.querySelectorAll('input[name="source"]')) {
    input.addEventListener("change", () => { state.source = input.value; useSource(); });
  }
  part("sentence").addEventListener("input", () => { state.sentence = part("sentence").value; if (modelReady) modelReady.then(readSentence); });
  part("paste").addEventListener("input", () => { state.paste = part("paste").value; readPaste(); });
  part("captured-head").addEventListener("change", () => { state.captured = Number(part("captured-head").value); useSource(); });
  for (const [id, name] of [["query-shares", "queryShares"], ["key-shares", "keyShares"]]) {
    part(id).addEventListener("input", () => { state[name] = part(id).value; touch(); });
  }
  part("mask").addEventListener("change", () => { state.mask = part("mask").value; touch(); });
  part("compare").addEventListener("change", () => { state.compare = part("compare").checked; setControls(); touch(); });
  const cloud = () => {
    const count = (id) => Math.max(1, Math.min(LIMIT, Math.round(Number(part(id).value)) || 1));
    state.points = drawCloud(state.seed, count("point-queries"), count("point-keys"));
    chosenPoint = { kind: "queries", index: 0 };
    useSource();
  };
  part("redraw").addEventListener("click", () => { state.seed += 1; cloud(); });
  for (const id of ["point-queries", "point-keys"]) part(id).addEventListener("change", cloud);
  part("share").addEventListener("click", async () => {
    history.replaceState(null, "", `#${fragment()}`);
    try {
      await navigator.clipboard.writeText(location.href);
      part("shared").textContent = "The address is in the clipboard.";
    } catch {
      part("shared").textContent = "The address bar has it.";
    }
  });
  addEventListener("hashchange", () => { readFragment(location.hash.slice(1)); setControls(); useSource(); });
  new ResizeObserver(() => { if (source) redraw(); }).observe(part("sides"));
};

const addTheme = () => {
  const choices = ["system", "light", "dark"];
  const button = document.createElement("button");
  let choice = "system";
  try { choice = localStorage.getItem("otattn-theme") || choice; } catch { /* no storage */ }
  if (!choices.includes(choice)) choice = "system";
  button.id = "theme-switch";
  button.type = "button";
  const apply = () => {
    if (choice === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = choice;
    button.textContent = `Theme: ${choice}`;
    refreshLook();
    if (library && state.tokens) fillHeads(part("heads"), library, state.tokens.length, state.head, chooseHead);
    redraw();
  };
  button.addEventListener("click", () => {
    choice = choices[(choices.indexOf(choice) + 1) % choices.length];
    try { localStorage.setItem("otattn-theme", choice); } catch { /* no storage */ }
    apply();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", apply);
  document.querySelector("header").prepend(button);
  apply();
};

const start = async () => {
  panels.push(buildSide(0), buildSide(1));
  addTheme();
  captured.heads.forEach(({ layer, head }, index) => { element("option", "", part("captured-head"), `layer ${layer}, head ${head}`).value = index; });
  part("captured-words").textContent = `\u201c${captured.sentence}\u201d, ${captured.tokens.length} tokens of ${captured.model}.`;
  readFragment(location.hash.slice(1));
  setControls();
  listen();
  try {
    const words = new URLSearchParams(location.search);
    library = await Library.open(words.get("build"));
    await useSource();
  } catch (error) {
    part("facts").textContent = `The module could not be started: ${error.message}`;
    throw error;
  }
  part("model-words").textContent = library.layers ? `A GPT-2 of ${library.layers} layers of ${library.heads} heads, run in this page. Its own mask is the causal one.` : "";
  part("facts").textContent = `otattn ${library.version}, ${library.vectors ? "vector instructions (SIMD)" : "plain build"}, `
    + `${Math.round(library.size / 1000)} kB of WebAssembly; nothing leaves this page.`;
  document.documentElement.dataset.ready = library.vectors ? "vectors" : "plain";
};

window.playground = { state, plans, panels, timings, get source() { return source; }, get library() { return library; } };
start();
