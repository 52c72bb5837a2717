/* The state in the address and in the controls: one object of texts, as the server reads them. */
"use strict";

const KEYS = ["records", "batch", "epochs", "mechanism", "noise", "sampling", "relation", "delta", "epsilon", "solve", "rows"];
const EXAMPLE = { records: "60000", batch: "256", epochs: "30", mechanism: "gaussian", noise: "1.1", sampling: "poisson", relation: "add-or-remove", delta: "1e-05", epsilon: "3" };

// what a slider reaches, on a logarithmic scale of 1000 with steps that change the number; people may type
// anything
const SLIDERS = {
  records: { from: 1e3, to: 1e8, digits: 2, whole: true, step: 10 },
  batch: { from: 1, to: 1e5, digits: 2, whole: true, step: 10 },
  epochs: { from: 0.1, to: 1e3, digits: 2, step: 10 },
  noise: { from: 0.3, to: 10, digits: 3, step: 4 },
  delta: { from: 1e-12, to: 1e-3, digits: 1, step: 1000 / 27 },
};

// a link is asked as it is written, with keys that are unknown or repeated, so that the server says what is wrong with it
function readState(query) {
  const pairs = [...new URLSearchParams(query.replaceAll("+", "%2B"))]; // a plus is a plus, as in 1e+2
  if (!pairs.length) return { ...EXAMPLE };
  return { ...Object.fromEntries(pairs.filter(([key]) => KEYS.includes(key))), link: writePairs(pairs) };
}

// once a control has changed, the controls are the question
function changeState(state, changes) {
  return { ...state, ...changes, link: "" };
}

function writeState(state) {
  const kept = KEYS.filter((key) => state[key] !== undefined && state[key] !== "" && key !== state.solve);
  return state.link || writePairs(kept.map((key) => [key, state[key]]));
}

function writePairs(pairs) {
  const write = (text) => encodeURIComponent(text).replace(/%2F/g, "/");
  return pairs.map(([key, value]) => `${write(key)}=${write(value)}`).join("&");
}

// thousands apart, where a number is whole; everything else as it was typed
function showNumber(text) {
  return /^\d{4,}$/.test(text) ? text.replace(/\B(?=(\d{3})+$)/g, ",") : text.replace(/^1e-0?(\d+)$/, "1e-$1");
}

// only counts have groups of digits: elsewhere a comma may be meant as a decimal point, and the server says that it is none
function readNumber(key, text) {
  const isGrouped = ["records", "batch", "epochs"].includes(key) && /^\d{1,3}([,\s_]\d{3})+$/.test(text.trim());
  return isGrouped ? text.replace(/[,\s_]/g, "") : text.trim();
}

function fromSlider(key, share) {
  const { from, to, digits, whole } = SLIDERS[key];
  const value = from * (to / from) ** share;
  if (whole) return String(Math.max(1, Math.round(Number(value.toPrecision(digits)))));
  const text = Number(value.toPrecision(digits));
  return key === "delta" ? text.toExponential().replace(/e-(\d)$/, "e-0$1") : String(text);
}

function toSlider(key, text) {
  const { from, to } = SLIDERS[key];
  const [above, below] = String(text).split("/");
  const value = Number(above) / (below ? Number(below) : 1);
  return value > 0 ? Math.min(1, Math.max(0, Math.log(value / from) / Math.log(to / from))) : 0;
}
