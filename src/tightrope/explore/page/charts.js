/* From the library's numbers to pictures: each chart is a function of what is known and a width. */
"use strict";

const INK = { ink: "var(--ink)", soft: "var(--soft)", line: "var(--line)", accent: "var(--accent)", bar: "var(--bar)", hatch: "var(--hatch)", paper: "var(--paper)" };
const FOR_PAPER = { "--ink": "#1c1c1a", "--soft": "#63615b", "--line": "#d9d6cf", "--accent": "#0f5c6e", "--bar": "#a9a69d", "--hatch": "#77756e", "--paper": "#ffffff", "--panel": "#ffffff", "--sans": "Helvetica, Arial, sans-serif" };
const HALO = { stroke: INK.paper, strokeWidth: 4, paintOrder: "stroke" };
const SHORT = { poisson: "Poisson", "without-replacement": "without replacement", "balls-in-bins": "balls in bins", "every-record": "full batches", "add-or-remove": "add or remove", substitute: "exchange" };
// four digits, rounded away from what is known
const outwards = (side) => (value) => {
  const unit = 10 ** (Math.floor(Math.log10(Math.abs(value))) - 3);
  if (!value || !Number.isFinite(unit) || !unit) return String(value);
  let found = +value.toPrecision(4);
  while (side * found < side * value) found = +(found + side * unit).toPrecision(4);
  return String(found);
};
const above = outwards(1), below = outwards(-1);
const real = (value) => (value === "infinity" ? Infinity : value);

function frame(width, more) {
  return {
    width,
    style: { fontSize: "12.5px", fontFamily: "var(--sans)", color: INK.soft, background: "transparent" },
    className: "chart",
    ...more,
  };
}

// stripes that stay readable without colour: what lies between the two proved ends
function stripes() {
  const make = (name, attributes) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    return node;
  };
  return () => {
    const defs = make("defs", {});
    const pattern = make("pattern", { id: "stripes", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" });
    pattern.append(make("rect", { width: 6, height: 6, fill: INK.paper }), make("rect", { width: 2.2, height: 6, fill: INK.hatch }));
    defs.append(pattern);
    return defs;
  };
}

const CHARTS = {
  bars(known, width) {
    const rows = known.order.map((key) => known.bars.get(key)).filter(Boolean);
    const found = rows.filter((row) => row.epsilon);
    if (!rows.length) return null;
    const finite = found.map((row) => real(row.epsilon.upper)).filter(Number.isFinite);
    const most = Math.max(1e-9, ...finite);
    const narrow = width < 620;
    const left = narrow ? 0 : 246;
    const right = narrow ? 112 : 200;
    const drawn = found.map((row) => ({ ...row, low: Math.min(real(row.epsilon.lower), most), high: Math.min(real(row.epsilon.upper), most) }));
    const claimed = drawn.find((row) => row.claimed);
    const wide = (row) => row.high - row.low > 0.005 * most;
    const value = (row) => {
      const { low, high } = row.epsilon;
      const text = wide(row) ? `${low} to ${high}` : high;
      return row.claimed ? `${text}  claimed` : narrow || !row.ratio ? text : `${text}   ${row.ratio.replace(/x/g, "×")}`;
    };
    const inset = narrow ? { insetTop: 20, insetBottom: 2 } : { insetTop: 4, insetBottom: 4 };
    const missing = rows.filter((row) => !row.epsilon);
    const label = (row) => `${SHORT[row.sampling] ?? row.sampling}, ${SHORT[row.relation] ?? row.relation}`;
    const named = { y: "key", x: 0, text: label, textAnchor: narrow ? "start" : "end", dx: narrow ? 0 : -10, dy: narrow ? -12 : 0, ...HALO };
    return Plot.plot(frame(width, {
      height: rows.length * (narrow ? 44 : 30) + 46,
      marginLeft: left + 2, marginRight: right, marginTop: 8, marginBottom: 38,
      x: { domain: [0, most], label: "epsilon", nice: false, ticks: narrow ? 4 : 8 },
      y: { domain: rows.map((row) => row.key), axis: null, padding: 0 },
      marks: [
        stripes(),
        Plot.gridX({ stroke: INK.line, strokeOpacity: 0.8 }),
        Plot.barX(drawn, { y: "key", x1: 0, x2: "low", fill: (row) => (row.claimed ? INK.accent : INK.bar), ...inset }),
        Plot.barX(drawn.filter(wide), { y: "key", x1: "low", x2: "high", fill: "url(#stripes)", stroke: INK.hatch, strokeWidth: 1, ...inset }),
        claimed ? Plot.ruleX([claimed.high], { stroke: INK.accent, strokeWidth: 1.25, strokeDasharray: "2,3" }) : null,
        Plot.text(rows.filter((row) => !row.claimed), { ...named, fill: INK.ink, href: (row) => row.href, lineAnchor: "middle" }),
        Plot.text(rows.filter((row) => row.claimed), { ...named, fill: INK.accent, fontWeight: 700 }),
        Plot.text(drawn, { y: "key", x: "high", text: value, textAnchor: "start", dx: 7, dy: narrow ? 9 : 0, fill: (row) => (row.claimed ? INK.accent : INK.ink), fontWeight: (row) => (row.claimed ? 700 : 400), ...HALO }),
        Plot.text(missing, { y: "key", x: 0, text: (row) => (row.refusal ? "refused: see below" : "…"), textAnchor: "start", dx: 7, dy: narrow ? 9 : 0, fill: INK.soft, fontStyle: "italic" }),
        Plot.ruleX([0], { stroke: INK.soft }),
      ],
    }));
  },

  curve({ curve }, width) {
    if (!curve?.points) return null;
    const rows = curve.points.map(([epsilon, lower, upper]) => ({ epsilon, lower: Math.max(lower, 1e-300), upper: Math.max(upper, 1e-300) })).filter((row) => row.upper > 1e-300);
    return Plot.plot(frame(width, {
      height: 300, marginLeft: 56, marginBottom: 40, marginTop: 20, marginRight: 16,
      x: { label: "epsilon", ticks: 6 },
      y: { type: "log", label: "delta", ticks: 6, tickFormat: (d) => (Math.abs(Math.log10(d) % 1) < 1e-9 || Math.abs((Math.log10(d) % 1) + 1) < 1e-9 ? d.toExponential(0) : "") },
      marks: [
        Plot.gridY({ stroke: INK.line, ticks: 6 }),
        Plot.areaY(rows, { x: "epsilon", y1: "lower", y2: "upper", fill: INK.accent, fillOpacity: 0.22 }),
        Plot.lineY(rows, { x: "epsilon", y: "lower", stroke: INK.accent, strokeWidth: 1, strokeDasharray: "3,3" }),
        Plot.lineY(rows, { x: "epsilon", y: "upper", stroke: INK.accent, strokeWidth: 2 }),
        Plot.ruleX([real(curve.epsilon)], { stroke: INK.soft, strokeDasharray: "2,3" }),
        Plot.ruleY([curve.delta], { stroke: INK.soft, strokeDasharray: "2,3" }),
        Plot.dot([[real(curve.epsilon), curve.delta]], { fill: INK.accent, r: 4.5 }),
        Plot.tip(rows, Plot.pointerX({ x: "epsilon", y: "upper", fill: "var(--panel)", title: (row) => `epsilon ${above(row.epsilon)}\ndelta ${below(row.lower)} to ${above(row.upper)}` })),
      ],
    }));
  },

  epochs({ epochs, answer }, width) {
    const points = epochs?.points ?? [];
    if (!points.length) return null;
    const rows = points.map(([at, lower, upper]) => ({ at, lower: real(lower), upper: real(upper) })).filter((row) => Number.isFinite(row.upper));
    if (!rows.length) return null;
    const budget = epochs.budget;
    const now = answer?.epochs;
    const most = Math.max(...rows.map((row) => row.upper));
    const near = budget && budget <= 1.6 * most;
    const exceeded = most > budget; // then the curve ends above the line, and its name goes below
    const until = 2 * now || Math.max(...rows.map((row) => row.at));
    return Plot.plot(frame(width, {
      height: 300, marginLeft: 48, marginBottom: 40, marginTop: 20, marginRight: 16,
      x: { label: "epochs", domain: [0, until], ticks: 6 }, y: { label: "epsilon", domain: [0, near ? Math.max(budget * 1.1, most) : most], ticks: 6 },
      marks: [
        Plot.gridY({ stroke: INK.line }),
        near ? Plot.ruleY([budget], { stroke: INK.ink, strokeWidth: 1.25 }) : null,
        near ? Plot.text([[exceeded ? until : 0, budget]], { text: [`budget: epsilon ${budget}`], textAnchor: exceeded ? "end" : "start", dx: exceeded ? -6 : 6, dy: exceeded ? 11 : -11, fill: INK.ink, ...HALO }) : null,
        Plot.areaY(rows, { x: "at", y1: "lower", y2: "upper", fill: INK.accent, fillOpacity: 0.22 }),
        Plot.lineY(rows, { x: "at", y: "lower", stroke: INK.accent, strokeWidth: 1, strokeDasharray: "3,3" }),
        Plot.lineY(rows, { x: "at", y: "upper", stroke: INK.accent, strokeWidth: 2, marker: rows.length < 8 ? "dot" : undefined }),
        now ? Plot.ruleX([now], { stroke: INK.soft, strokeDasharray: "2,3" }) : null,
        now ? Plot.dot(rows.filter((row) => Math.abs(row.at - now) < 1e-9 * now), { x: "at", y: "upper", fill: INK.accent, r: 4.5 }) : null,
        Plot.tip(rows, Plot.pointerX({ x: "at", y: "upper", fill: "var(--panel)", title: (row) => `${below(row.at)} epochs\nepsilon ${below(row.lower)} to ${above(row.upper)}` })),
      ],
    }));
  },

  attack({ attack }, width) {
    if (!attack?.points) return null;
    const rows = attack.points.map(([alarm, lower, upper]) => ({ alarm, lower, upper }));
    const room = 0.02 + 150 / (width - 64); // what the words are wide, as a share of the axis
    const words = rows.every((row) => row.alarm > room || row.lower > 0.13) ? "no attack gets here" : "";
    return Plot.plot(frame(width, {
      height: 300, marginLeft: 48, marginBottom: 40, marginTop: 20, marginRight: 16,
      x: { label: "false alarms", domain: [0, 1], ticks: 5, tickFormat: (d) => `${Math.round(100 * d)} %` },
      y: { label: "misses", domain: [0, 1], ticks: 5, tickFormat: (d) => `${Math.round(100 * d)} %` },
      marks: [
        Plot.gridY({ stroke: INK.line, ticks: 5 }),
        Plot.line([[0, 1], [1, 0]], { stroke: INK.soft, strokeDasharray: "4,4" }),
        Plot.text([[0.74, 0.3]], { text: ["a coin"], fill: INK.soft, dx: 4, textAnchor: "start" }),
        Plot.areaY(rows, { x: "alarm", y1: 0, y2: "lower", fill: INK.accent, fillOpacity: 0.08 }),
        Plot.areaY(rows, { x: "alarm", y1: "lower", y2: "upper", fill: INK.accent, fillOpacity: 0.3 }),
        Plot.lineY(rows, { x: "alarm", y: "lower", stroke: INK.accent, strokeWidth: 2 }),
        words ? Plot.text([[0.02, 0.06]], { text: [words], fill: INK.soft, textAnchor: "start" }) : null,
        Plot.tip(rows, Plot.pointerX({ x: "alarm", y: "lower", fill: "var(--panel)", title: (row) => `false alarms ${below(100 * row.alarm)} %\nmisses at least ${below(100 * row.lower)} %` })),
      ],
    }));
  },

  accountants({ accountants }, width) {
    const rows = (accountants?.rows ?? []).map((row) => ({ ...row, low: real(row.lower), high: real(row.upper) }));
    const shown = rows.filter((row) => row.high !== null && Number.isFinite(row.high));
    if (!shown.length) return null;
    const certified = shown.find((row) => row.name === "certified");
    const most = Math.max(...shown.map((row) => row.high));
    const least = Math.min(...shown.map((row) => row.low ?? row.high));
    const pad = Math.max((most - least) * 0.15, most * 0.01);
    const letters = Math.floor((width - 40) / 7);
    const name = (row) => {
      const said = row.refusal ? "refused" : row.beside;
      const whole = [row.name, said].filter(Boolean).join(": ");
      if (whole.length <= letters) return whole;
      const [first, ...source] = row.name.split(" ("); // a source gets a line of its own; the table has all of it
      const cited = `(${source.join(" (")}`;
      return `${[first, said].filter(Boolean).join(": ")}\n${cited.length > letters ? `${cited.slice(0, letters - 2)}…)` : cited}`;
    };
    const isTall = rows.some((row) => name(row).includes("\n"));
    const high = isTall ? 60 : 44, dy = isTall ? 14 : 6;
    return Plot.plot(frame(width, {
      height: rows.length * high + 46, marginLeft: 8, marginRight: 24, marginTop: 8, marginBottom: 38,
      x: { label: "epsilon", domain: [Math.max(0, least - pad), most + pad], ticks: 5 },
      y: { type: "band", domain: rows.map((row) => row.name), axis: null, padding: 0 },
      marks: [
        Plot.gridX({ stroke: INK.line }),
        certified ? Plot.ruleX([certified.high], { stroke: INK.accent, strokeWidth: 1.25, strokeDasharray: "2,3" }) : null,
        Plot.text(rows, { y: "name", frameAnchor: "left", text: name, lineAnchor: "bottom", dy: isTall ? 3 : -5, textAnchor: "start", fill: INK.ink, ...HALO }),
        Plot.ruleY(shown.filter((row) => row.low !== null), { y: "name", x1: "low", x2: "high", stroke: (row) => (row === certified ? INK.accent : INK.hatch), strokeWidth: 5, dy }),
        Plot.dot(shown, { y: "name", x: "high", dy, r: 5, symbol: (row) => (row.name.startsWith("gaussian-limit") ? "times" : "circle"), stroke: (row) => (row === certified ? INK.accent : INK.ink), fill: (row) => (row === certified ? INK.accent : INK.paper), strokeWidth: 1.6 }),
      ],
      symbol: { type: "identity" },
    }));
  },
};

// what a chart shows as a table: a heading, then rows; downloads and screen readers read the same
const TABLES = {
  bars: (known) => [["sampling", "relation", "steps", "epsilon, lower end", "epsilon, upper end", "times the claim", "refusal"], ...known.order.map((key) => known.bars.get(key)).filter(Boolean).map((row) => [row.sampling, row.relation, row.steps ?? "", row.epsilon?.lower ?? "", row.epsilon?.upper ?? "", row.ratio ?? "", row.refusal ?? ""])],
  curve: ({ curve }) => [["epsilon", "delta, lower end", "delta, upper end"], ...(curve?.points ?? [])],
  epochs: ({ epochs }) => [["epochs", "epsilon, lower end", "epsilon, upper end"], ...(epochs?.points ?? [])],
  attack: ({ attack }) => [["false alarms", "misses, lower end", "misses, upper end"], ...(attack?.points ?? [])],
  accountants: ({ accountants }) => [["accountant", "epsilon", "beside the bracket", "what it is", "refusal"], ...(accountants?.rows ?? []).map((row) => [row.name, row.answer, row.beside, row.promise, row.refusal])],
};

function asCsv(table) {
  const cell = (value) => (/[",\n]/.test(String(value)) ? `"${String(value).replaceAll('"', '""')}"` : String(value ?? ""));
  return table.map((row) => row.map(cell).join(",")).join("\n") + "\n";
}

// a picture that stands alone: colours of paper written out, links left out
function asSvg(svg) {
  const copy = svg.cloneNode(true);
  copy.querySelectorAll("a").forEach((link) => link.replaceWith(...link.childNodes));
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  const paper = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  paper.setAttribute("width", "100%");
  paper.setAttribute("height", "100%");
  paper.setAttribute("fill", "#ffffff");
  copy.prepend(paper);
  const text = new XMLSerializer().serializeToString(copy);
  return text.replace(/var\((--\w+)\)/g, (whole, name) => FOR_PAPER[name] ?? "#000000");
}

function save(name, type, content) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

async function asPng(svg) {
  const picture = new Image();
  picture.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(asSvg(svg))}`;
  await picture.decode();
  const canvas = document.createElement("canvas");
  canvas.width = 2 * svg.width.baseVal.value;
  canvas.height = 2 * svg.height.baseVal.value;
  canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}
