/* The page: controls to state, state to questions, lines of answers to what is shown. */
"use strict";

const $ = (id) => document.getElementById(id);
const baked = $("baked") ? JSON.parse($("baked").textContent) : null;
const NAMES = { records: "records", batch: "batch", epochs: "epochs", noise: "noise multiplier", delta: "delta" };
const OF = { epsilon: "epsilon is at most", "noise multiplier": "noise multiplier", epochs: "epochs, at most", "records in a batch": "records in a batch, at most" };
const IN_PASSES = ["balls-in-bins", "shuffled"];
const ALL_AFTER = 250, PATIENCE = 400, ALIVE_EVERY = 4000; // milliseconds

let state = readState(baked ? baked.state : location.search.slice(1));
let known = emptyKnowledge();
let asking = null; // the stream of all parts
let quick = { request: null, since: 0, again: false };
let harder = null;
let pending = 0;
let printing = false;
let shown = null; // the last answer

function emptyKnowledge(query) {
  return { query, answer: null, bars: new Map(), order: [], verdict: "", curve: null, epochs: null, attack: null, accountants: null };
}

// controls

function fillControls() {
  for (const control of document.querySelectorAll("[data-key]")) {
    const key = control.dataset.key;
    const solved = state.solve === key;
    if (control.tagName === "INPUT") {
      control.readOnly = solved || Boolean(baked);
      if (document.activeElement !== control || solved) control.value = solved ? control.value : showNumber(state[key] ?? "");
      fit(control);
    } else choose(control, state[key]);
    if (baked) control.disabled = control.tagName === "SELECT";
  }
  for (const radio of document.querySelectorAll("[name=solve]")) radio.checked = radio.value === (state.solve ?? "");
  $("rows").checked = state.rows === "all";
  for (const slider of document.querySelectorAll("#sliders input")) {
    const key = slider.dataset.slider;
    slider.disabled = state.solve === key;
    slider.parentElement.classList.toggle("off", slider.disabled);
    if (document.activeElement !== slider) slider.value = Math.round(1000 * toSlider(key, state[key] ?? ""));
    slider.setAttribute("aria-valuetext", state[key] ?? "not stated");
  }
}

// what the state does not say, or what is no choice, is shown as just that
function choose(select, value = "") {
  const other = select.querySelector("[hidden]");
  const isKnown = [...select.options].some((option) => option !== other && option.value === value);
  other.textContent = value || "not stated";
  select.value = isKnown ? value : "";
}

function fit(input) {
  if (!CSS.supports("field-sizing", "content")) input.style.width = `${Math.max(input.value.length, 1) + 0.6}ch`;
}

function makeSliders() {
  for (const [key, name] of Object.entries(NAMES)) {
    const label = document.createElement("label");
    const slider = document.createElement("input");
    Object.assign(slider, { type: "range", min: 0, max: 1000, step: SLIDERS[key].step });
    slider.dataset.slider = key;
    slider.setAttribute("aria-label", `${name}, slider`);
    slider.addEventListener("input", () => change({ [key]: fromSlider(key, slider.value / 1000) }));
    label.append(name, slider);
    $("sliders").append(label);
  }
}

function listen() {
  for (const control of document.querySelectorAll("[data-key]")) {
    const event = control.tagName === "SELECT" ? "change" : "input";
    control.addEventListener(event, () => {
      const text = control.tagName === "SELECT" ? control.value : readNumber(control.dataset.key, control.value);
      if (control.tagName === "INPUT") fit(control);
      change({ [control.dataset.key]: text });
    });
    control.addEventListener("blur", fillControls);
  }
  for (const radio of document.querySelectorAll("[name=solve]")) radio.addEventListener("change", () => solveFor(radio.value));
  $("question").addEventListener("submit", (event) => event.preventDefault());
  $("rows").addEventListener("change", () => change({ rows: $("rows").checked ? "all" : "" }));
  $("harder").addEventListener("click", workHarder);
  $("cancel").addEventListener("click", () => harder?.abort());
  for (const button of document.querySelectorAll("[data-copy]")) button.addEventListener("click", () => copy(button));
  window.addEventListener("popstate", () => ask(readState(location.search.slice(1))));
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a");
    const query = link?.href?.baseVal ?? link?.getAttribute("href") ?? ""; // in a chart, and in a table
    if (!query.startsWith("?") || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault(); // the same page with another question
    ask(readState(query.slice(1)), true);
  });
  window.addEventListener("beforeprint", () => { printing = true; drawAll(); });
  window.addEventListener("afterprint", () => { printing = false; drawAll(); });
  let last = innerWidth;
  window.addEventListener("resize", () => { if (innerWidth !== last) { last = innerWidth; drawAll(); } });
}

// what was solved for becomes what is stated, so that switching back changes nothing
function solveFor(name) {
  const next = changeState(state, { solve: name });
  const before = state.solve;
  if (before) {
    const settled = shown ? readState(shown.settled) : {};
    next[before] = settled[before] ?? EXAMPLE[before];
  }
  if (name && !next.epsilon) next.epsilon = EXAMPLE.epsilon;
  ask(next, true);
}

function change(changes) {
  ask(changeState(state, changes));
}

// questions

function ask(next, steps = false) {
  state = next;
  fillControls();
  const query = writeState(state);
  clearTimeout(ask.addressing);
  ask.addressing = setTimeout(() => history[steps ? "pushState" : "replaceState"](null, "", `?${query}`), steps ? 0 : 120);
  harder?.abort();
  asking?.abort();
  for (const figure of document.querySelectorAll("figure, #verdict, #why, .take pre")) figure.classList.add("stale");
  $("answer").setAttribute("aria-busy", "true");
  askQuick();
  clearTimeout(ask.waiting);
  ask.waiting = setTimeout(askAll, ALL_AFTER);
}

// the number for a slider that moves: one question at a time, and the last one wins
function askQuick() {
  const isYoung = () => performance.now() - quick.since < PATIENCE;
  if (quick.request && isYoung() && !IN_PASSES.includes(state.sampling)) {
    if (!quick.again) setTimeout(() => { if (quick.again) askQuick(); }, PATIENCE);
    quick.again = true;
    return;
  }
  quick.request?.abort();
  if (IN_PASSES.includes(state.sampling)) { // which take seconds: once is enough
    quick = { request: null, since: 0, again: false };
    return;
  }
  const request = new AbortController();
  const query = writeState(state);
  quick = { request, since: performance.now(), again: false };
  const hear = (line) => {
    const isLast = query === writeState(state);
    if (line.part !== "answer" || quick.request !== request || !(isYoung() || isLast)) return;
    showAnswer(line);
    $("answer").setAttribute("aria-busy", String(!isLast)); // a slider that moved on waits for its own answer
  };
  stream("answer", request.signal, query, hear)
    .finally(() => {
      if (quick.request !== request) return;
      quick.request = null;
      if (quick.again) askQuick();
    });
}

function askAll() {
  const request = new AbortController();
  asking = request;
  const query = writeState(state);
  const fresh = emptyKnowledge(query);
  let begun = false;
  pending += 1;
  showStatus();
  stream("all", request.signal, query, (line) => {
    if (asking !== request) return;
    if (!begun) {
      begun = true;
      known = fresh;
    }
    take(line);
  }).finally(() => {
    pending -= 1;
    showStatus();
  });
}

async function stream(what, signal, query, hear) {
  const lost = () => { if (!signal.aborted) lose(); };
  const response = await fetch(`ask/${what}?${query}`, { signal, cache: "no-store" }).catch(lost);
  if (!response) return;
  if (!response.ok) {
    const said = (await response.text()).trim();
    if (signal.aborted) return;
    forget(query);
    showRefusal(said);
    return;
  }
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "", ended = false;
  for (;;) {
    const piece = await reader.read().catch(() => null);
    if (!piece || piece.done) break;
    const lines = (rest + piece.value).split("\n");
    rest = lines.pop();
    for (const text of lines) {
      const line = JSON.parse(text);
      ended ||= line.part === "end";
      if (!signal.aborted) hear(line);
    }
  }
  if (!ended) lost();
}

// there is nothing to show of this question, nor anything left of the one before
function forget(query) {
  known = { ...emptyKnowledge(query), ended: true };
  drawAll();
}

function lose() {
  const query = writeState(state);
  $("lost").textContent = `The server of this page does not answer. To go on: tightrope explore --at "${query}"`;
  $("lost").hidden = false;
  // what answers an earlier question must not stand beside this one
  if (known.query !== query) forget(query);
  if ($("answer").getAttribute("aria-busy") === "true") showRefusal("the server does not answer, so that nothing is known about this question.");
}

async function stayAlive() {
  try {
    const response = await fetch("alive", { cache: "no-store" });
    if (!response.ok) throw new Error("another server");
    if (!$("lost").hidden) {
      $("lost").hidden = true;
      ask(state);
    }
  } catch {
    lose();
  }
  setTimeout(stayAlive, ALIVE_EVERY);
}

function showStatus() {
  $("status").textContent = pending ? "computing…" : "";
  document.body.dataset.busy = String(Boolean(pending));
}

// answers

function take(line) {
  if (line.part === "end") {
    known.ended = true;
    drawAll();
    return;
  }
  if (line.part === "answer") {
    if (line.refusal === undefined) known.answer = line;
    showAnswer(line);
    drawAll();
    return;
  }
  if (line.part === "bar") {
    const key = `${line.sampling}, ${line.relation}`;
    known.bars.set(key, { ...line, key, href: line.state && !baked ? `?${line.state}` : undefined });
    known.order = [...known.bars.keys()].sort((a, b) => place(a) - place(b));
  } else if (line.part === "verdict") known.verdict = line.said ?? "";
  else if (line.part === "epochs" && line.point) {
    known.epochs ??= { points: [] };
    known.epochs.budget = line.budget;
    known.epochs.points.push(line.point);
    if (known.epochs.points.length % 4 && known.epochs.points.length < line.of && line.of > 8) return;
  } else if (line.part === "epochs") known.epochs = { ...(known.epochs ?? { points: [] }), refusal: line.refusal };
  else if (line.part === "accountants" && line.refusal && known.accountants?.rows) return;
  else if (line.part in CHARTS) known[line.part] = line;
  draw(line.part === "verdict" ? "bars" : line.part);
}

const ORDER = ["poisson", "without-replacement", "balls-in-bins", "shuffled", "every-record", "add-or-remove", "substitute", "add", "remove"];
function place(key) {
  const [sampling, relation] = key.split(", ");
  return 10 * ORDER.indexOf(sampling) + ORDER.indexOf(relation) / 100;
}

function showAnswer(line) {
  $("answer").setAttribute("aria-busy", "false");
  if (line.refusal !== undefined) {
    showRefusal(line.refusal);
    return;
  }
  shown = line;
  const settled = readState(line.settled);
  const [above, below] = (settled.epochs ?? "").split("/");
  line.epochs = Number(above) / Number(below ?? 1);
  $("of").textContent = OF[line.of] ?? line.of;
  $("number").textContent = line.number;
  $("number").parentElement.className = `big${line.number.length > 7 ? " long" : ""}`;
  $("said").textContent = line.said;
  $("training").textContent = line.training;
  tellGap(line.why);
  document.title = `${line.of} ${line.number} · Tightrope`;
  for (const input of document.querySelectorAll("input[data-key]")) input.removeAttribute("aria-invalid");
  const solved = state.solve && document.querySelector(`input[data-key=${state.solve}]`);
  if (solved) {
    solved.value = state.solve === "epochs" ? line.number : showNumber(settled[state.solve]);
    fit(solved);
  }
  showTight(line.why.tight);
  showWhy(line.why);
  for (const text of document.querySelectorAll(".take pre")) {
    text.textContent = line.copies[text.id.replace("copy-", "")];
    text.classList.remove("stale");
  }
  const whyNot = line.copies.no_statement;
  $("no-statement").textContent = whyNot;
  $("no-statement").hidden = !whyNot;
  for (const part of document.querySelectorAll("#copy-statement, [data-copy=statement]")) part.hidden = Boolean(whyNot);
  showCopies(true);
}

// beside the number: which way round it holds, how far apart its ends are, and on which conditions
function tellGap(why) {
  const conditions = why.conditions.map((each) => `This holds if ${each}.`);
  $("gap").textContent = [why.direction, why.gap, ...conditions].filter(Boolean).join(" ");
}

function showCopies(some) {
  document.querySelector(".copies").hidden = !some;
  $("no-copies").hidden = some;
}

// a question without an answer leaves nothing of the one before
function showRefusal(said) {
  shown = null;
  said = said.slice(0, 1).toUpperCase() + said.slice(1);
  $("answer").setAttribute("aria-busy", "false");
  $("of").textContent = "";
  $("number").textContent = "No answer";
  if (state.solve) for (const solved of document.querySelectorAll(`input[data-key="${CSS.escape(state.solve)}"]`)) solved.value = "?";
  $("number").parentElement.className = "big words";
  $("said").textContent = said;
  $("training").textContent = $("gap").textContent = "";
  $("tight").hidden = true;
  document.title = "No answer · Tightrope";
  $("why").replaceChildren(element("p", "There is no answer to explain.", { class: "quiet" }));
  $("why").classList.remove("stale");
  for (const text of document.querySelectorAll(".take pre")) text.textContent = "";
  showCopies(false);
  const named = document.querySelector(`input[data-key=${CSS.escape(said.split(" ")[0].toLowerCase())}]`);
  named?.setAttribute("aria-invalid", "true");
}

function showTight(tight) {
  if (harder && !harder.signal.aborted) return; // the same answer came again, and work on it goes on
  $("tight").hidden = !tight || Boolean(baked);
  if (!tight) return;
  const takes = tight.seconds ? ` (about ${tight.seconds < 90 ? `${Math.max(1, Math.round(tight.seconds))} s` : `${Math.round(tight.seconds / 60)} min`})` : "";
  $("harder").textContent = `Work harder${takes}`;
  $("harder").hidden = false;
  $("cancel").hidden = $("progress").hidden = true;
  $("tight-said").textContent = "";
}

async function workHarder() {
  const request = new AbortController();
  harder = request;
  $("harder").hidden = true;
  $("cancel").hidden = $("progress").hidden = false;
  $("progress").removeAttribute("value");
  $("tight-said").textContent = "";
  $("cancel").focus();
  const query = shown?.settled ?? writeState(state);
  let told = "", isDone = false;
  await stream("tight", request.signal, query, (line) => {
    if (line.part === "progress") Object.assign($("progress"), { max: line.of, value: line.done });
    else if (line.part !== "tight") take(line); // the bars, beside what is claimed now
    else {
      isDone = !line.refusal;
      told = line.refusal ?? "This is as narrow as the bracket gets.";
      const { said, why, epsilon } = line;
      if (isDone) showAnswer({ ...shown, ...(state.solve ? { part: "tight", said, why, epsilon } : line) });
      draw("curve");
    }
  });
  if (harder !== request) return;
  harder = null;
  if (request.signal.aborted && !isDone) told = "Cancelled; the answer above stands.";
  const wasOnCancel = document.activeElement === $("cancel"); // whoever types elsewhere is not disturbed
  $("cancel").hidden = $("progress").hidden = true;
  $("harder").hidden = isDone;
  $("tight").hidden = false;
  $("tight-said").textContent = told;
  if (wasOnCancel && !isDone) $("harder").focus();
}

function element(name, text, more = {}) {
  const node = document.createElement(name);
  if (text) node.textContent = text;
  for (const [key, value] of Object.entries(more)) node.setAttribute(key, value);
  return node;
}

function showWhy(why) {
  const list = element("dl");
  for (const theorem of why.theorems) {
    const name = element("dt", theorem.name);
    name.append(element("small", theorem.standing));
    const source = element("dd", `${theorem.reference}. `, { class: "quiet" });
    if (!baked) source.append(element("a", "Proof note", { href: `proofs/${theorem.proof}`, target: "_blank", rel: "noopener", "aria-label": `Proof note of ${theorem.name}` }));
    list.append(name, element("dd", theorem.statement), source);
    if (baked) {
      const note = element("details");
      note.append(element("summary", "Proof note"), element("pre", baked.proofs[theorem.proof] ?? "", { class: "note", tabindex: "0" }));
      source.append(note);
    }
  }
  const reached = why.reached_by ? [element("p", `The lower end is reached by ${why.reached_by}.`, { class: "quiet" })] : [];
  const branch = why.branch && why.branch !== state.relation ? [element("p", `Of the relation, ${why.branch.replaceAll("_", "-")} costs most.`, { class: "quiet" })] : [];
  $("why").replaceChildren(list, ...reached, ...branch);
  $("why").classList.remove("stale");
}

// charts

const NOTES = {
  bars: () => {
    const refused = [...known.bars.values()].filter((row) => row.refusal).map((row) => `Refused, ${row.key}: ${row.refusal}`);
    const striped = [...known.bars.values()].some((row) => row.epsilon && real(row.epsilon.upper) > 1.01 * real(row.epsilon.lower));
    return [striped ? "Stripes lie between what is proved to be reached and what is proved to hold." : "", ...refused].filter(Boolean).join("\n");
  },
  curve: () => (known.curve?.points ? `Solid: what is guaranteed. Dashed: what two real datasets reach. The dot is the answer${shown?.part === "tight" ? " before more work" : ""}.` : ""),
  epochs: () => {
    const { points = [], budget } = known.epochs ?? {};
    if (!budget || !points.length) return "";
    const last = points.findLastIndex((point) => real(point[2]) <= budget); // epsilon grows, so all before it are within
    const within = points[last], open = points[last + 1], over = points.find((point) => real(point[1]) > budget);
    const said = [];
    const at = (epochs) => (said.length ? epochs : `${epochs} epoch${epochs === "1" ? "" : "s"}`);
    if (within) said.push(`stays within it up to ${at(below(within[0]))}`);
    if (open && open !== over) said.push(`is not proved to be within it at ${at(above(open[0]))}`);
    if (over) said.push(over === points[0] ? `is above it from ${at(above(over[0]))} on, or earlier` : `is above it at ${at(above(over[0]))}`);
    said[0] = said[0].replace(/\bit\b/, `the budget of epsilon ${budget}`);
    return `It ${[said.slice(0, -1).join(", "), said.at(-1)].filter(Boolean).join(", and ")}.`;
  },
  attack: () => {
    if (!known.attack?.said) return "";
    const alarm = known.attack.alarms[1];
    return `${known.attack.said} With 1 % false alarms it detects at most ${alarm.percent}.`;
  },
  accountants: () => (!known.accountants?.rows ? "" : known.accountants.all ? "The dashed line is the certified upper end." : "The dashed line is the certified upper end. Exact integers and Monte Carlo follow."),
};
const NOTE_OF = { bars: "bars-note", curve: "curve-note", epochs: "epochs-note", attack: "attack-note", accountants: "others-note" };

function drawAll() {
  for (const name of Object.keys(CHARTS)) draw(name);
}

function draw(name) {
  if (!(name in CHARTS)) return;
  const figure = document.querySelector(`figure[data-chart=${name}]`);
  const open = figure.querySelector("details")?.open;
  $(NOTE_OF[name]).textContent = NOTES[name]();
  if (name === "bars") {
    $("verdict").textContent = known.verdict;
    $("verdict").classList.remove("stale");
  }
  const refusal = known[name]?.refusal;
  const onPaper = name === "bars" ? 690 : 330;
  const svg = CHARTS[name](known, printing ? onPaper : Math.max(280, Math.floor(figure.clientWidth)));
  figure.classList.toggle("stale", false);
  if (!svg) {
    const said = refusal ?? (known.ended ? "Without an answer there is nothing to draw." : "…");
    figure.replaceChildren(element("p", said.slice(0, 1).toUpperCase() + said.slice(1), { class: said === "…" ? "waiting" : "refusal" }));
    return;
  }
  svg.setAttribute("role", name === "bars" && !baked ? "group" : "img"); // a group may hold links
  svg.setAttribute("aria-label", describe(name));
  const more = refusal ? [element("p", refusal, { class: "refusal" })] : [];
  figure.replaceChildren(svg, ...more, tools(name, open));
}

function describe(name) {
  const heading = figureHeading(name);
  return `${heading}. ${name === "bars" ? known.verdict : NOTES[name]()} The numbers are in the table below.`;
}

const figureHeading = (name) => document.querySelector(`figure[data-chart=${name}]`).closest("section").querySelector("h2").textContent;

function tools(name, open) {
  const bar = element("div", "", { class: "tools" });
  const button = (label, act) => {
    const node = element("button", label, { type: "button", "aria-label": `Download “${figureHeading(name)}” as ${label}` });
    node.addEventListener("click", act);
    bar.append(node);
  };
  bar.append(element("span", "Download"));
  button("SVG", () => save(`tightrope-${name}.svg`, "image/svg+xml", asSvg(CHARTS[name](known, 760))));
  button("PNG", async () => save(`tightrope-${name}.png`, "image/png", await asPng(CHARTS[name](known, 760))));
  button("CSV", () => save(`tightrope-${name}.csv`, "text/csv", asCsv(TABLES[name](known))));
  const details = element("details");
  details.open = Boolean(open);
  const [heading, ...rows] = TABLES[name](known);
  const table = element("table");
  const head = element("tr");
  head.append(...heading.map((cell) => element("th", cell, { scope: "col" })));
  const body = rows.map((row) => {
    const line = element("tr");
    line.append(...row.map((cell) => element("td", String(cell ?? ""))));
    if (name === "bars" && !baked) {
      const bars = known.bars.get(`${row[0]}, ${row[1]}`);
      if (bars?.href) line.firstChild.replaceChildren(element("a", row[0], { href: bars.href, "aria-label": `ask about ${row[0]}, ${row[1]}` }));
    }
    return line;
  });
  table.append(head, ...body);
  const scroll = element("div", "", { class: "scroll", tabindex: "0", role: "region", "aria-label": `${figureHeading(name)}: numbers` });
  scroll.append(table);
  details.append(element("summary", "Numbers"), scroll);
  bar.append(details);
  return bar;
}

async function copy(button) {
  const text = $(`copy-${button.dataset.copy}`).textContent;
  const before = button.dataset.label ?? button.textContent;
  button.dataset.label = before;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren($(`copy-${button.dataset.copy}`));
    button.textContent = "Selected: press Ctrl-C";
  }
  setTimeout(() => { button.textContent = before; }, 2000);
}

// start

makeSliders();
listen();
if (baked) {
  document.body.classList.add("baked");
  fillControls();
  for (const line of baked.lines) take(line);
  $("foot").textContent = `Computed by tightrope ${baked.version}. To change it: tightrope explore --at "${baked.state}"`;
} else {
  $("foot").textContent = "The address of this page holds the whole question: bookmark it, or pass it to tightrope explore --at LINK. Nothing leaves this machine.";
  ask(state);
  setTimeout(stayAlive, ALIVE_EVERY);
}
document.body.dataset.ready = "true";
