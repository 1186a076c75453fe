// The module of WebAssembly: packed in the page, built with or without vector instructions, called through numbers and
// addresses (web/playground.c says what each call does).
"use strict";

const part = (id) => document.getElementById(id);

// Five of these letters are four bytes, as numbers to the base 85, highest first (scripts/make_playground.py).
const LETTERS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?_~()[]{}@%$#,";

const unpack = async (id) => {
  const element = part(id);
  const text = element.textContent.trim();
  const value = new Uint8Array(128);
  [...LETTERS].forEach((letter, index) => { value[letter.charCodeAt(0)] = index; });
  const bytes = new Uint8Array((text.length / 5) * 4);
  for (let from = 0, to = 0; from < text.length; from += 5, to += 4) {
    let word = 0;
    for (let at = 0; at < 5; at += 1) word = word * 85 + value[text.charCodeAt(from + at)];
    bytes[to] = word >>> 24;
    bytes[to + 1] = word >>> 16;
    bytes[to + 2] = word >>> 8;
    bytes[to + 3] = word;
  }
  const stream = new Blob([bytes.subarray(0, Number(element.dataset.size))]).stream();
  return new Uint8Array(await new Response(stream.pipeThrough(new DecompressionStream("gzip"))).arrayBuffer());
};

// A file as pieces of another and bytes of its own: [offset, length, own] of three u32 each, then all own bytes.
const patched = (base, patch) => {
  const view = new DataView(patch.buffer);
  const count = view.getUint32(0, true);
  const out = new Uint8Array(view.getUint32(4, true));
  let own = 8 + 12 * count;
  let to = 0;
  for (let row = 0; row < count; row += 1) {
    const [offset, length, more] = [0, 4, 8].map((at) => view.getUint32(8 + 12 * row + at, true));
    out.set(base.subarray(offset, offset + length), to);
    out.set(patch.subarray(own, own + more), to + length);
    to += length + more;
    own += more;
  }
  return out;
};

// (func (result v128) (v128.const 0)), which a browser without vector instructions refuses.
const VECTORS = new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 22, 1, 20, 0, 253, 12,
  0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 11]);

// What the C library asks a system for: the time, and nothing else that is answered.
const REFUSED = 8; // no such descriptor: there are no files
const systemOf = (memory) => new Proxy({
  clock_time_get: (clock, precision, to) => {
    new DataView(memory().buffer).setBigUint64(to, BigInt(Math.round(performance.now() * 1e6)), true);
    return 0;
  },
  environ_sizes_get: (count, size) => {
    const view = new DataView(memory().buffer);
    view.setUint32(count, 0, true);
    view.setUint32(size, 0, true);
    return 0;
  },
  proc_exit: () => { throw new Error("the module ended"); },
}, { get: (known, name) => known[name] ?? (() => REFUSED) });

const FACTS = ["status", "rounds", "rowError", "columnError", "primal", "dual", "gap", "cost", "entropy", "support",
  "receiverMax", "receiverMin", "delta", "curve"];

class Library {
  static async open(choice) {
    const plain = await unpack("module");
    const vectors = choice !== "plain" && WebAssembly.validate(VECTORS);
    const bytes = vectors ? patched(plain, await unpack("vectors")) : plain;
    const found = await WebAssembly.compile(bytes);
    let instance = null;
    const system = systemOf(() => instance.exports.memory);
    const imports = {};
    for (const { module, name } of WebAssembly.Module.imports(found)) (imports[module] ??= {})[name] = system[name];
    instance = await WebAssembly.instantiate(found, imports);
    instance.exports._initialize();
    return new Library(instance.exports, vectors, bytes.length);
  }

  constructor(calls, vectors, size) {
    Object.assign(this, { calls, vectors, size, limit: calls.play_limit(), version: "" });
    this.version = this.string(calls.play_version());
  }

  bytes(at, length) { return new Uint8Array(this.calls.memory.buffer, at, length); }

  numbers(at, length) { return new Float64Array(this.calls.memory.buffer, at, length); }

  string(at) {
    const all = new Uint8Array(this.calls.memory.buffer);
    return new TextDecoder().decode(all.subarray(at, all.indexOf(0, at)));
  }

  get text() { return this.string(this.calls.play_text()); }

  set text(value) {
    const room = this.bytes(this.calls.play_text(), this.calls.play_text_size());
    room[new TextEncoder().encodeInto(value, room.subarray(0, room.length - 1)).written] = 0;
  }

  // Masses and the sink's logit of the side that is solved next; null: none. What play_solve is told of them.
  setMasses({ rows, columns, sink }) {
    if (rows) this.numbers(this.calls.play_row_masses(), rows.length).set(rows);
    if (columns) this.numbers(this.calls.play_column_masses(), columns.length).set(columns);
    if (sink !== null) this.numbers(this.calls.play_sink(), 1)[0] = sink;
    return (rows ? 2 : 0) + (columns ? 4 : 0) + (sink === null ? 0 : 8);
  }

  setScores(scores) { this.numbers(this.calls.play_scores(), scores.length).set(scores); }

  // { error } or everything that one side shows.
  solve(side, method, { queries, keys, causal, masses }, rounds) {
    const asked = (causal ? 1 : 0) + this.setMasses(masses);
    this.text = method;
    if (this.calls.play_solve(side, queries, keys, asked, rounds) < 0) return { error: this.text };
    const values = this.numbers(this.calls.play_facts(side), FACTS.length);
    const facts = Object.fromEntries(FACTS.map((name, index) => [name, values[index]]));
    return {
      method, queries, keys, facts,
      word: this.string(this.calls.play_status(side)),
      sentence: this.text,
      coupling: this.numbers(this.calls.play_coupling(side), queries * keys).slice(),
      received: this.numbers(this.calls.play_received(side), keys).slice(),
      curve: this.numbers(this.calls.play_curve(side), facts.curve).slice(),
    };
  }

  openModel(file) {
    this.bytes(this.calls.play_file(file.length), file.length).set(file);
    if (this.calls.play_open() < 0) throw new Error(this.text);
    this.layers = this.calls.play_layers();
    this.heads = this.calls.play_heads();
  }

  // The sentence's tokens as texts, or { error }.
  read(sentence, limit) {
    this.text = sentence;
    const count = this.calls.play_read(limit);
    if (count < 0) return { error: this.text };
    const tokens = [];
    for (let at = this.calls.play_text(); tokens.length < count;) {
      const end = new Uint8Array(this.calls.memory.buffer).indexOf(0, at);
      tokens.push(new TextDecoder().decode(this.bytes(at, end - at)));
      at = end + 1;
    }
    return { tokens };
  }

  // Weights of every head of the sentence as the model has them, [layers, heads, count, count].
  weights(count) {
    return new Float32Array(this.calls.memory.buffer, this.calls.play_weights(), this.layers * this.heads * count * count);
  }

  headScores(layer, head, count) {
    this.calls.play_head(layer, head);
    return this.numbers(this.calls.play_scores(), count * count).slice();
  }
}
