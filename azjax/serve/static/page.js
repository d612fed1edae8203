// The page: a game as a tree of positions, who plays it, and what network, search and solver think of each position.
// The server remembers nothing; the address holds the line that is shown.

import { Board, percent, verdictOf } from "./board.js";

const $ = (id) => document.getElementById(id);
const el = (tag, properties = {}, ...children) => {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children.filter((child) => child !== null));
  return element;
};
const NS = "http://www.w3.org/2000/svg";
const svg = (tag, attributes = {}, parent = null, text = null) => {
  const element = document.createElementNS(NS, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== null) element.textContent = text;
  parent?.append(element);
  return element;
};

// Puts new children in the place of others without taking the focus from what they are about.
const STOPS = "button, [tabindex]";
function redraw(holder, children) {
  const had = holder.contains(document.activeElement) ? document.activeElement : null;
  const at = had && [...holder.querySelectorAll(STOPS)].indexOf(had), about_ = had?.dataset.key;
  holder.replaceChildren(...children);
  if (!had) return;
  const stops = [...holder.querySelectorAll(STOPS)];
  (stops.find((stop) => about_ !== undefined && stop.dataset.key === about_) ?? stops[Math.min(at, stops.length - 1)])?.focus({ preventScroll: true });
}

// One of a group is chosen; the arrow keys go to the next, and Tab goes past them.
function choose(group, attribute, chosen) {
  for (const one of group.children) {
    one.setAttribute(attribute, one === chosen);
    one.tabIndex = one === chosen ? 0 : -1;
  }
}

function arrowsChoose(group) {
  group.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key], all = [...group.children], at = all.indexOf(event.target);
    if (!step || at < 0) return;
    const next = all.at((at + step) % all.length);
    next.focus();
    next.click();
    event.preventDefault();
    event.stopPropagation();
  });
}

// ---- talking to the server

class ServerError extends Error {}
let busy = 0;

async function ask(what, fields = {}, signal = undefined) {
  busy += 1;
  const slow = setTimeout(watchStatus, 350);
  try {
    const answer = await fetch(`api/${what}`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(fields),
      signal,
    });
    const told = await answer.json().catch(() => ({ error: `the server answers ${answer.status}` }));
    if (!answer.ok) throw new ServerError(told.error ?? `the server answers ${answer.status}`);
    return told;
  } catch (error) {
    if (error instanceof TypeError) throw new ServerError("the server does not answer: has it been stopped?");
    throw error;
  } finally {
    clearTimeout(slow);
    busy -= 1;
    if (!busy && $("status").classList.contains("busy")) say("");
  }
}

// While an answer is late, says what it waits for: the first of each kind is compiled.
async function watchStatus() {
  while (busy > 0) {
    try {
      const answer = await fetch("api/status", { method: "POST", headers: { "Content-Type": "application/json" }, body: "{}" });
      const at = (await answer.json()).agents?.find(({ state }) => state !== "idle");
      if (busy > 0) {
        const what = at?.state === "compiling" ? `compiling ${at.agent} (the first time only)` : at ? `${at.agent}: ${at.state}` : "working";
        say(what, "busy");
      }
    } catch { return; }
    await new Promise((done) => setTimeout(done, 700));
  }
}

function say(text, kind = "") {
  $("status").textContent = text;
  $("status").className = kind;
}

// Whatever goes wrong in what a click began is shown, except what was given up for something newer.
const guarded = (work) => async (...given) => {
  try {
    if ($("status").classList.contains("wrong")) say("");
    return await work(...given);
  } catch (error) {
    if (error.name === "AbortError") return undefined;
    say(error.message, "wrong");
    if (!(error instanceof ServerError)) console.error(error);
    return undefined;
  }
};

// ---- the game

const setup = { runs: [], games: [] };
let about = null; // of the game: its layout, and what is known of it
let root = null; // {action, move, parent, children, position, ...}
let here = null; // the node that is shown
let view = "play";
let players = ["human", "random"];
let ended = null; // who has resigned
let ladder = { rungs: [] };
let working = null; // an agent that is to move
const layers = { network: true, search: true, truth: true, ownership: false };
let hovered = null, hintAt = null, sortBy = "order", sortDown = false;
const chosen = { analyst: "uct:200", visits: 64, step: null };

const lineOf = (node) => {
  const moves = [];
  for (let at = node; at.parent; at = at.parent) moves.unshift(at.action);
  return { ...about.game, ...(root.start ? { start: root.start } : {}), moves };
};
const pathTo = (node) => { const path = []; for (let at = node; at; at = at.parent) path.unshift(at); return path; };
const newNode = (action, move, parent) => ({ action, move, parent, children: [], position: null, analyses: {}, verdict: null });
const tipOf = (node) => { while (node.children.length) node = node.children.at(-1); return node; };
const nameOf = (player) => about.layout?.names[player] ?? ["First", "Second"][player];
const firstView = (value, player) => (player === 0 ? value : -value);

async function begin(game, { start = null, moves = [] } = {}) {
  stopWorking();
  about = await ask("layout", { ...game, moves: [] });
  root = newNode(null, null, null);
  root.start = start;
  ended = null;
  hintAt = null;
  let node = root;
  if (moves.length) {
    const told = await ask("position", { ...about.game, ...(start ? { start } : {}), moves });
    told.line.moves.forEach((move, i) => { node = child(node, told.actions[i], move); });
    node.position = told;
  }
  fillForGame();
  await go(node);
}

function child(node, action, move) {
  let found = node.children.find((one) => one.move === move);
  if (!found) {
    found = newNode(action, move, node);
    node.children.push(found);
  }
  return found;
}

async function load(node) {
  node.position ??= await ask("position", lineOf(node));
  return node.position;
}

async function go(node) {
  here = node;
  hovered = null;
  await Promise.all([load(node), node.parent && load(node.parent)]);
  if (here !== node) return;
  remember();
  draw();
  think();
  letAgentMove();
}

const play = guarded(async (action) => {
  const legal = here.position?.legal.find((one) => one.action === action); // none while a move is on its way
  if (!legal || (players[here.position.player] !== "human" && view === "play" && !atRest())) return;
  ended = null;
  hintAt = null;
  await go(child(here, action, legal.move));
});

// Whether nobody is to move by itself: the game is looked through rather than played.
const atRest = () => here.children.length > 0 || view !== "play" || ended !== null;

const letAgentMove = guarded(async () => {
  stopWorking();
  const { position } = here;
  if (!position || atRest() || position.over || players[position.player] === "human") return;
  const agent = players[position.player], node = here, control = new AbortController();
  working = control;
  draw();
  try {
    const effort = $("effort").value;
    const extra = effort === "own" ? {} : { [effort]: Number($("effort-number").value) };
    const seed = Math.floor(Math.random() * 2 ** 31);
    const told = await ask("move", { ...lineOf(node), agent, seed, ...extra }, control.signal);
    if (working !== control) return;
    working = null;
    if (told.resigns || told.forfeits) {
      ended = position.player;
      draw();
      return;
    }
    await go(child(node, told.action, told.move));
  } finally {
    if (working === control) working = null;
    draw();
  }
});

function stopWorking() {
  working?.abort();
  working = null;
}

// Whether the game was given up; what might have come is still looked at in Analyse.
const resigned = () => ended !== null && view === "play";

function resultText() {
  const { position } = here;
  if (resigned()) return `${nameOf(1 - ended)} wins: ${nameOf(ended)} has resigned`;
  if (!position.over) return null;
  const reward = position.rewards[0];
  return reward > 0 ? `${nameOf(0)} has won` : reward < 0 ? `${nameOf(1)} has won` : "A draw";
}

// ---- the address

function remember() {
  const words = { ...about.game };
  if (root.start) words.start = root.start;
  const moves = pathTo(here).slice(1).map((node) => node.move);
  if (moves.length) words.moves = moves.join(",");
  if (view !== "play") words.view = view;
  const hash = new URLSearchParams(Object.entries(words)).toString();
  history.replaceState(null, "", `${location.pathname}#${hash}`);
}

const TABS = document.querySelector("nav");
const VIEWS = [...TABS.children].map((tab) => tab.dataset.view);

function remembered() {
  const words = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  const { game, start, moves, view: wanted, ...options } = words;
  if (!game) return null;
  for (const [name, value] of Object.entries(options)) options[name] = readOption(value);
  return { game: { game, ...options }, start: start ?? null, moves: moves ? moves.split(",") : [], view: VIEWS.includes(wanted) ? wanted : "play" };
}

const readOption = (value) => (value === "true" ? true : value === "false" ? false : value === "null" || value === "" ? null : /^-?\d+$/.test(value) ? Number(value) : value);

// ---- the board and around it

const board = new Board($("board"), {
  play: (action) => play(action),
  hover: (action) => { hovered = action; drawVariationLine(); },
});
const isDark = () => (document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";

const key = () => `${chosen.analyst} ${chosen.visits} ${chosen.step}`;
const analysis = (node = here) => node.analyses[key()] ?? null;

function thoughts() {
  const found = {};
  const told = view === "analyse" ? analysis() : null;
  for (const info of told?.moveInfos ?? []) {
    found[info.action] = { prior: info.prior, visits: info.visits, value: info.utility, after: info.rawUtilityAfter, pv: info.pv, best: info.order === 0 };
  }
  if (view === "analyse") {
    for (const [action, proven] of Object.entries(here.verdict?.moves ?? {})) found[action] = { ...found[action], proven };
  }
  if (hintAt === here && here.hint != null) found[here.hint] = { ...found[here.hint], best: true, visits: found[here.hint]?.visits ?? 1, value: found[here.hint]?.value ?? 0 };
  return found;
}

function draw() {
  if (!here?.position) return;
  const { position } = here, known = thoughts();
  const shownLayers = view === "analyse" ? layers : { search: false, network: false, truth: false };
  const human = view === "analyse" || players[position.player] === "human" || atRest();
  board.show({
    layout: about.layout,
    position,
    theme: isDark() ? "dark" : "light",
    open: human && !resigned(),
    thoughts: known,
    layers: hintAt === here ? { ...shownLayers, hint: true } : shownLayers,
    ownership: analysis()?.ownership,
    blunder: mistake(here) ? here.action : null,
  });
  drawVariationLine();
  drawPlayers();
  drawMoveButtons(human && !resigned());
  drawBars();
  drawComment();
  drawThoughtTable(known);
  drawBranches();
  drawGraph();
  const path = pathTo(here);
  $("ply").textContent = `${path.length - 1} / ${pathTo(tipOf(here)).length - 1}`;
  $("first").disabled = $("back").disabled = !here.parent;
  $("forward").disabled = $("last").disabled = !here.children.length;
  $("undo").disabled = !here.parent;
  $("hint").disabled = position.over || !about.hintable;
  $("resign").hidden = view !== "play";
  $("resign").disabled = view !== "play" || position.over || ended !== null || players[position.player] !== "human";
  $("notation").textContent = position.notation ?? "";
}

function drawPlayers() {
  const { position } = here;
  for (const player of [0, 1]) {
    const who = players[player] === "human" ? (players[1 - player] === "human" ? "" : "you") : players[player];
    const score = position.scores ? el("span", { className: "score", textContent: position.scores[player] }) : null;
    const name = el("span", {}, el("b", { textContent: nameOf(player) }), view === "play" && who ? ` ${who}` : "");
    name.title = `${nameOf(player)} ${who}`;
    $(`player${player}`).replaceChildren(el("i", { className: `p${player}` }), name, ...(score ? [score] : []));
    $(`player${player}`).classList.toggle("moves", !position.over && !resigned() && position.player === player);
  }
  const result = resultText();
  $("turn").textContent = result ?? (working ? "thinking …" : view === "play" && players[position.player] === "human" && players[1 - position.player] !== "human" ? "your move" : `${nameOf(position.player)} to move`);
  $("turn").classList.toggle("over", result !== null);
}

// Actions without a place on the board, and all of them where the board is a picture.
function drawMoveButtons(open) {
  const { position } = here;
  const loose = position.legal.filter(({ action }) => !about.layout || !about.layout.actions[action].length);
  redraw($("moves-buttons"), loose.map(({ action, move }) => {
    const label = { "swap-pieces": "swap sides: take over this stone" }[move] ?? (about.layout && move === String(action) ? "pass" : move);
    const info = view === "analyse" ? thoughts()[action] : null;
    const verdict = layers.truth ? verdictOf(info?.proven) : null;
    const shares = [layers.network && info?.prior != null ? `${percent(info.prior)} %` : null, layers.search && info?.visits ? `${percent((info.value + 1) / 2)}` : null, verdict?.sign].filter((one) => one != null);
    const button = el("button", { textContent: [label, ...shares].join("  ·  "), disabled: !open });
    button.dataset.action = action;
    button.addEventListener("click", () => play(action));
    return button;
  }));
}

// ---- what is thought

let thinking = null;

const think = guarded(async () => {
  thinking?.abort();
  const control = (thinking = new AbortController());
  if (view !== "analyse" || !here.position) return;
  const node = here;
  await Promise.all([search(node, control.signal), solve(node, control), fillGraph(node, control.signal)]);
});

const search = guarded(async (node, signal) => {
  if (!chosen.analyst || analysis(node) || node.position.over) return;
  const asked = key();
  // A glance first, so that there is something to see at once.
  for (const visits of chosen.visits > 64 ? [16, chosen.visits] : [chosen.visits]) {
    const told = await ask("analyse", {
      ...lineOf(node), agent: chosen.analyst, maxVisits: visits, includeAllMoves: true, includeOwnership: true,
      ...(chosen.step === null ? {} : { step: chosen.step }),
    }, signal);
    node.analyses[asked] = told;
    $("steps-box").hidden = false;
    document.querySelector('[data-layer="ownership"]').hidden = !told.ownership;
    if (here === node) draw();
  }
  // Then the rest of the game, many positions at once: for the graph, and for when they are looked at.
  const path = pathTo(tipOf(node)), open = path.flatMap((at, turn) => (at.analyses[asked] || at.position?.over ? [] : [turn]));
  for (let from = 0; from < open.length; from += 32) {
    const turns = open.slice(from, from + 32);
    const answers = await ask("analyse", {
      ...lineOf(path.at(-1)), agent: chosen.analyst, maxVisits: chosen.visits, includeAllMoves: true, analyzeTurns: turns,
      ...(chosen.step === null ? {} : { step: chosen.step }),
    }, signal);
    for (const told of answers) path[told.turnNumber].analyses[asked] = told;
    if (here === node) draw();
  }
});

// The solver's verdicts on the whole line; asked again until they are there.
async function solve(node, control) {
  if (!about.solver) return;
  for (let wait = 150; ; wait = Math.min(2000, wait * 1.5)) {
    const path = pathTo(node);
    const from = path.findIndex((at) => !at.verdict || at.verdict.status === "pending");
    if (from < 0) return;
    const told = await guarded(() => ask("truth", { ...lineOf(node), from }, control.signal))();
    if (!told || control.signal.aborted) return;
    told.verdicts.forEach((verdict, i) => { path[from + i].verdict = verdict; });
    if (here === node) draw();
    if (told.verdicts.every(({ status }) => status !== "pending")) return;
    await new Promise((done) => setTimeout(done, wait));
    if (control.signal.aborted) return;
  }
}

const fillGraph = guarded(async (node, signal) => {
  const tip = tipOf(node), path = pathTo(tip);
  if (!chosen.analyst || path.every((at) => at.networkBy === `${chosen.analyst} ${chosen.step}`)) return;
  const told = await ask("graph", { ...lineOf(tip), agent: chosen.analyst, ...(chosen.step === null ? {} : { step: chosen.step }) }, signal);
  told.network.forEach((value, i) => {
    path[i].network = value;
    path[i].result = told.results[i];
    path[i].networkBy = `${chosen.analyst} ${chosen.step}`;
  });
  if (here === node) draw();
});

// What a position is worth for the first player, by each of the three.
function worth(node) {
  const told = node.analyses[key()], over = node.position?.over ? node.position.rewards[0] : node.result ?? null;
  const player = node.position?.player ?? node.verdict?.player ?? (told?.rootInfo.currentPlayer === "W" ? 1 : 0), proven = node.verdict?.value;
  const scale = about.game.reward === "margin" ? 0.2 : 1;
  return {
    network: over ?? (told?.rootInfo.rawUtility != null ? firstView(told.rootInfo.rawUtility, player) : node.networkBy ? node.network : null),
    search: over ?? (told ? firstView(told.rootInfo.utility, player) : null),
    truth: over ?? (proven != null ? Math.max(-1, Math.min(1, firstView(proven, player) * scale)) : null),
  };
}

function drawBars() {
  $("bars").hidden = view !== "analyse";
  if (view !== "analyse") return;
  const values = worth(here);
  $("bars").replaceChildren(...Object.entries(values).map(([name, value]) => {
    const share = value === null ? 0 : (value + 1) / 2;
    const bar = el("div", { className: value === null ? "bar none" : "bar", title: value === null ? `${name}: unknown` : `${name}: ${nameOf(0)} ${percent(share)} %` });
    bar.setAttribute("role", "meter");
    bar.setAttribute("aria-label", `${name}, share of ${nameOf(0)}`);
    bar.setAttribute("aria-valuemin", 0);
    bar.setAttribute("aria-valuemax", 100);
    if (value !== null) {
      bar.setAttribute("aria-valuenow", percent(share));
      bar.append(el("b", { style: `height:${100 * share}%` }));
    }
    const box = el("div", { style: "display:flex" }, bar);
    const label = el("span", { className: "name", textContent: name[0].toUpperCase(), style: `color:var(--${name})` });
    label.setAttribute("aria-hidden", true);
    box.append(label);
    return box;
  }));
}

// A move that gave away a proven value: what it was worth, what it is, and what would have kept it.
function mistake(node) {
  const before = node.parent?.verdict, moved = before?.moves?.[node.action];
  if (before?.value == null || !moved || moved.high >= before.value) return null;
  const keepers = Object.entries(before.moves).filter(([, one]) => one.low >= before.value).map(([action]) => Number(action));
  return { had: before.value, has: moved.high, keepers };
}

const worthWord = (value) => (about.game.reward === "margin" ? `${value > 0 ? "+" : ""}${value}` : value > 0 ? "a won position" : value < 0 ? "a lost position" : "a draw");

function drawComment() {
  const wrong = view === "analyse" ? mistake(here) : null;
  $("comment").hidden = !wrong;
  if (!wrong) return;
  const before = here.parent.position;
  const kept = wrong.keepers.map((action) => before?.legal.find((one) => one.action === action)?.move ?? action);
  const text = el("span", {}, el("b", { textContent: `${here.move} ?! ` }), `${nameOf(before.player)} had ${worthWord(wrong.had)} and now has ${worthWord(wrong.has)}. ${kept.slice(0, 8).join(", ")}${kept.length > 8 ? " …" : ""} would have kept it.`);
  const again = el("button", { textContent: "Try again", id: "again" });
  again.addEventListener("click", guarded(async () => {
    board.svg.focus();
    await go(here.parent);
  }));
  $("comment").replaceChildren(text, again);
}

const COLUMNS = [
  ["order", "move", "the move, the best first"],
  ["prior", "P", "probability by the network, before search"],
  ["visits", "N", "how often the search looked at it"],
  ["value", "Q", "the search's value, from -1 to 1 for who moves"],
  ["after", "V", "the network's value of the position after the move"],
  ["proven", "truth", "what the solver has proven"],
  ["far", "in", "plies to the end"],
];

function rows(known) {
  const infos = analysis()?.moveInfos ?? [];
  const order = new Map(infos.map(({ action, order: place }) => [action, place]));
  return here.position.legal.map(({ action, move }, i) => {
    const one = known[action] ?? {};
    const proven = one.proven ? (one.proven.low === one.proven.high ? one.proven.low : null) : null;
    return { action, move, order: order.get(action) ?? i + 1000, prior: one.prior, visits: one.visits, value: one.visits ? one.value : null, after: one.after, proven, far: one.proven?.plies ?? one.proven?.margin, verdict: verdictOf(one.proven), bounded: !!one.proven && proven === null, best: one.best, pv: one.pv };
  });
}

function drawThoughtTable(known) {
  if (view !== "analyse") return;
  const head = el("tr");
  const byMargin = Object.values(here.verdict?.moves ?? {}).some(({ margin }) => margin !== undefined);
  for (const [name, title, hint] of COLUMNS.map((column) => (byMargin && column[0] === "far" ? ["far", "by", "boxes more than the opponent at the end"] : column))) {
    const cell = el("th", { scope: "col" }), button = el("button", { textContent: title, title: hint });
    if (sortBy === name) cell.setAttribute("aria-sort", sortDown ? "descending" : "ascending");
    button.addEventListener("click", () => {
      [sortDown, sortBy] = sortBy === name ? [!sortDown, name] : [name !== "order", name];
      draw();
    });
    cell.append(button);
    head.append(cell);
  }
  redraw($("thoughts").tHead, [head]);
  const all = rows(known), most = Math.max(1, ...all.map(({ visits }) => visits ?? 0));
  const rank = (row) => row[sortBy] ?? (sortDown ? -Infinity : Infinity);
  all.sort((a, b) => (sortDown ? rank(b) - rank(a) : rank(a) - rank(b)) || a.order - b.order);
  const signed = (value) => {
    if (value == null) return "";
    const text = Math.abs(value).toFixed(2);
    return Number(text) === 0 ? text : `${value > 0 ? "+" : "−"}${text}`;
  };
  redraw($("thoughts").tBodies[0], all.slice(0, 400).map((row) => {
    const line = el("tr", { className: row.best ? "best" : "", tabIndex: 0 });
    line.dataset.key = row.action;
    const meter = (text, share, tone) => el("td", { className: "meter", textContent: text, style: `--share:${(100 * (share ?? 0)).toFixed(1)}%;--tone:var(--${tone})` });
    const truth = row.verdict ? (about.game.reward === "margin" ? signed(row.proven) : `${row.verdict.sign} ${row.verdict.word}`) : here.verdict?.status === "pending" ? "…" : about.solver ? "unknown" : "";
    line.append(
      el("td", { textContent: row.move }),
      meter(row.prior == null ? "" : `${(100 * row.prior).toFixed(1)} %`, row.prior, "network"),
      meter(row.visits ?? "", (row.visits ?? 0) / most, "search"),
      el("td", { textContent: signed(row.value) }),
      el("td", { textContent: signed(row.after) }),
      el("td", { textContent: truth, className: row.verdict?.kind ?? "" }),
      el("td", { textContent: row.far ?? "" }),
    );
    line.addEventListener("click", () => play(row.action));
    line.addEventListener("keydown", (event) => { if (event.key === "Enter") play(row.action); });
    const look = () => { hovered = row.action; drawVariationLine(); showVariation(row); };
    line.addEventListener("pointerenter", look);
    line.addEventListener("focus", () => line.matches(":focus-visible") && look());
    for (const event of ["pointerleave", "blur"]) line.addEventListener(event, () => { hovered = null; drawVariationLine(); board.expect([]); });
    return line;
  }));
  drawVerdictLine();
}

function drawVerdictLine() {
  const verdict = here.verdict, line = $("verdict");
  line.className = "verdict-line";
  if (here.position.over) line.textContent = resultText();
  else if (!about.solver) line.textContent = "No solver knows this game.";
  else if (!verdict || verdict.status === "pending") line.textContent = verdict?.progress || "The solver is at work; unknown so far.";
  else if (verdict.status === "none") line.textContent = `Truth: unknown, ${verdict.why.split(/[:;]/)[0]}.`; // what follows is advice for programs
  else if (verdict.value == null) line.textContent = "Truth: unknown; the solver's time was not enough.";
  else {
    const who = nameOf(here.position.player), good = Object.values(verdict.moves).filter((one) => one.low >= verdict.value).length;
    const of = `${good} of ${Object.keys(verdict.moves).length} moves`;
    const kind = verdict.value > 0 ? "won" : verdict.value < 0 ? "lost" : "even";
    line.textContent = about.game.reward === "margin" ? `Truth: ${who} ends at ${verdict.value > 0 ? "+" : ""}${verdict.value}; ${of} keep it.`
      : kind === "won" ? `Truth: ${who} wins, with ${of}.` : kind === "lost" ? `Truth: ${who} loses, whatever is played.` : `Truth: a draw, kept by ${of}.`;
    line.classList.add(kind);
  }
}

function drawVariationLine() {
  if (!here?.position || view !== "analyse") return;
  const told = analysis();
  const info = told?.moveInfos.find(({ action }) => action === hovered) ?? told?.moveInfos[0];
  $("pv").replaceChildren();
  if (info?.visits) $("pv").append(el("b", { textContent: "expected: " }), info.pv.join(" "));
}

// What search expects after a move, as numbered pieces on the board.
const showVariation = guarded(async ({ action, pv }) => {
  if (!pv) return;
  const node = here, line = lineOf(node);
  const told = await ask("position", { ...line, moves: [...line.moves, ...pv] });
  if (here === node && hovered === action) board.expect(told.actions.slice(line.moves.length));
});

// ---- branches

function drawBranches() {
  if (view !== "analyse") return;
  const item = (node, number) => {
    const wrong = mistake(node);
    const button = el("button", { textContent: `${number}. ${node.move}${wrong ? " ?!" : ""}`, className: [node === here ? "now" : "", wrong ? "blunder" : ""].join(" ") });
    if (node === here) button.setAttribute("aria-current", "step");
    button.addEventListener("click", guarded(() => go(node)));
    return button;
  };
  const into = (parent, node, number) => {
    // The last child is the line that was looked at last; the others are branches.
    let at = node, ply = number;
    while (at.children.length) {
      const [main, ...others] = [...at.children].reverse();
      parent.append(item(main, ply), " ");
      for (const other of others) {
        const branch = el("div", { className: "branch" });
        branch.append(item(other, ply), " ");
        into(branch, other, ply + 1);
        parent.append(branch);
      }
      at = main;
      ply += 1;
    }
  };
  const start = el("button", { textContent: "start", className: here === root ? "now" : "" });
  start.addEventListener("click", guarded(() => go(root)));
  const all = el("div");
  all.append(start, " ");
  into(all, root, 1);
  redraw($("branches"), [all]);
}

// ---- the graph

function drawGraph() {
  const tip = here ? tipOf(here) : null;
  const path = tip ? pathTo(tip) : [];
  $("graph").hidden = view !== "analyse" || path.length < 2;
  if ($("graph").hidden) return;
  const width = 640, height = 150, left = 52, right = 8, top = 10, bottom = 18;
  const x = (i) => left + (width - left - right) * i / Math.max(1, path.length - 1);
  const y = (value) => top + (height - top - bottom) * (1 - value) / 2;
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "values over the game for the first player, by network, search and truth" });
  for (const [value, text] of [[0.93, nameOf(0)], [0, "even"], [-0.93, nameOf(1)]]) {
    svg("line", { x1: left, x2: width - right, y1: y(value), y2: y(value), class: "zero" }, picture);
    svg("text", { x: left - 4, y: y(value) + 3.5, "text-anchor": "end" }, picture, text.slice(0, 6));
  }
  const values = path.map(worth);
  for (const [name, colour] of [["truth", "var(--truth)"], ["network", "var(--network)"], ["search", "var(--search)"]]) {
    let line = "", open = false;
    values.forEach((value, i) => {
      if (value[name] === null) { open = false; return; }
      if (name === "truth") line += open ? `H${x(i)}V${y(value[name])}` : `M${x(i)},${y(value[name])}`;
      else line += `${open ? "L" : "M"}${x(i)},${y(value[name])}`;
      open = true;
      if (name !== "truth") svg("circle", { cx: x(i), cy: y(value[name]), r: 2.6, fill: colour }, picture);
    });
    svg("path", { d: line, class: `curve ${name}`, stroke: colour }, picture);
  }
  path.forEach((node, i) => {
    if (i && mistake(node)) svg("text", { x: x(i), y: height - 5, "text-anchor": i === path.length - 1 ? "end" : "middle", style: "fill:var(--lost);font-weight:700" }, picture, "?!");
  });
  const now = path.indexOf(here);
  svg("line", { x1: x(now), x2: x(now), y1: top - 4, y2: height - bottom + 4, stroke: "var(--accent)", "stroke-width": 2 }, picture);
  picture.style.cursor = "pointer";
  picture.addEventListener("click", guarded(async (event) => {
    const box = picture.getBoundingClientRect();
    const at = (event.clientX - box.left) / box.width * width;
    const i = Math.round((at - left) / (width - left - right) * (path.length - 1));
    await go(path[Math.max(0, Math.min(path.length - 1, i))]);
  }));
  const legend = el("figcaption", { className: "legend" });
  for (const name of ["network", "search", "truth"]) legend.append(el("span", {}, el("b", { style: `background:var(--${name})` }), name));
  $("graph").replaceChildren(picture, legend);
}

// ---- the search, step by step

let simTimer = null;

const showTree = guarded(async () => {
  if (!$("steps-box").open || view !== "analyse") return;
  const simulations = Number($("sim").value), node = here;
  $("sim-out").textContent = simulations;
  const told = await ask("tree", { ...lineOf(node), agent: chosen.analyst, simulations, ...(chosen.step === null ? {} : { step: chosen.step }) });
  if (here !== node || Number($("sim").value) !== simulations) return;
  drawTree(told);
});

function drawTree({ nodes, passed }) {
  const children = nodes.map(() => []);
  nodes.forEach((node, i) => { if (node.parent >= 0) children[node.parent].push(i); });
  const at = [], rowHeight = 58, apart = 46;
  let next = 0, deepest = 0;
  const place = (i, depth) => {
    deepest = Math.max(deepest, depth);
    const below = children[i].map((c) => place(c, depth + 1));
    const x = below.length ? (below[0] + below.at(-1)) / 2 : (next++ + 0.5) * apart;
    at[i] = [x, 30 + depth * rowHeight];
    return x;
  };
  place(0, 0);
  const width = Math.max(next * apart, 120), height = 60 + deepest * rowHeight;
  const picture = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `search tree of ${nodes.length} positions` });
  const on = new Set(passed), newest = passed.at(-1);
  nodes.forEach((node, i) => {
    if (node.parent < 0) return;
    const [x1, y1] = at[node.parent], [x2, y2] = at[i];
    svg("path", { d: `M${x1},${y1 + 15}C${x1},${y1 + 36} ${x2},${y2 - 36} ${x2},${y2 - 15}`, class: on.has(i) ? "edge passed" : "edge" }, picture);
  });
  nodes.forEach((node, i) => {
    const group = svg("g", { class: [on.has(i) ? "passed" : "", i === newest && node.visits === 1 ? "new" : ""].join(" ") }, picture);
    svg("circle", { cx: at[i][0], cy: at[i][1], r: 16 }, group);
    svg("text", { x: at[i][0], y: at[i][1] - 4.5, style: "font-weight:700" }, group, i ? node.move : "here");
    svg("text", { x: at[i][0], y: at[i][1] + 6 }, group, node.visits);
    const who = nameOf(node.player), prior = node.prior === null ? "" : `, P ${(100 * node.prior).toFixed(1)} %`;
    svg("title", {}, group, `${i ? node.move : "here"}: ${node.visits} visits, ${who} to move at ${node.value.toFixed(2)} (first look ${node.raw.toFixed(2)})${prior}`);
  });
  $("sim-tree").replaceChildren(picture);
  const leaf = nodes[newest];
  const route = passed.slice(1).map((i) => nodes[i].move).join(" ");
  const change = leaf ? `walked ${route || "nowhere"}; found ${leaf.raw.toFixed(2)} for ${nameOf(leaf.player)}` : "";
  $("sim-note").textContent = change;
  const target = leaf ? at[newest][0] : 0;
  $("sim-tree").scrollLeft = target - $("sim-tree").clientWidth / 2;
}

function stepTree(by) {
  const sim = $("sim");
  sim.value = Number(sim.value) + by;
  return showTree();
}

// ---- the panels

const texts = () => ["random", "uct:50", "uct:200", "uct:1000", ...(about?.solver ? ["perfect"] : []), ...(about?.name === "dots_and_boxes" ? ["easy", "medium", "hard"] : []), ...(about?.runs ?? []).flatMap((run) => [`az:${run}?sims=64`, `net:${run}`]), ...(setup.agents ?? [])];

function fillForGame() {
  $("agents").replaceChildren(...texts().map((value) => el("option", { value })));
  const strongest = about.runs[0] ? `az:${about.runs[0]}` : "uct:200";
  if (!about.runs.some((run) => chosen.analyst.includes(`:${run}`))) chosen.analyst = strongest;
  about.hintable = true;
  $("analyst").value = chosen.analyst;
  $("opponent").value ||= about.runs[0] ? `az:${about.runs[0]}?sims=64` : "uct:64"; // on the ladder
  const foreign = /^(az|net|td|es):([^?]*)/.exec($("opponent").value);
  if (foreign && !about.runs.includes(foreign[2])) $("opponent").value = strongest;
  $("visits").max = Math.floor(Math.log2(about.most));
  $("game").value = about.name;
  fillOptions();
  fillCheckpoints();
  setPlayers();
  guarded(fillLadder)();
}

function fillOptions() {
  const kind = setup.games.find(({ name }) => name === $("game").value);
  $("options").replaceChildren(...(kind?.options ?? []).map(({ name, default: standard }) => {
    const value = (about.name === kind.name ? about.game[name] : undefined) ?? standard;
    const input = typeof standard === "boolean" ? el("input", { type: "checkbox", checked: value }) : el("input", { type: typeof standard === "number" ? "number" : "text", value: value ?? "" });
    input.dataset.option = name;
    return el("label", { className: "row" }, name.replaceAll("_", " "), input);
  }));
}

function gameOfForm() {
  const game = { game: $("game").value };
  for (const input of $("options").querySelectorAll("[data-option]")) {
    game[input.dataset.option] = input.type === "checkbox" ? input.checked : readOption(input.value);
  }
  return game;
}

function fillCheckpoints() {
  const run = setup.runs.find(({ name }) => new RegExp(`^(az|net):${name.replace(/[^\w-]/g, "\\$&")}(\\?|$)`).test(chosen.analyst));
  const steps = run?.snapshots ?? [];
  $("checkpoint-row").hidden = steps.length < 2;
  if (steps.length < 2) { chosen.step = null; return; }
  $("checkpoint").max = steps.length - 1;
  const at = steps.findIndex(({ step }) => step === chosen.step);
  $("checkpoint").value = at < 0 ? steps.length - 1 : at;
  tellCheckpoint(steps);
  $("checkpoint").steps = steps;
}

function tellCheckpoint(steps) {
  const at = steps[Number($("checkpoint").value)];
  $("checkpoint-out").textContent = at.seconds == null ? `iteration ${at.step}` : `what it knew after ${duration(at.seconds)}`;
}

const short = (number) => (number < 1e3 ? Math.round(number) : number < 1e4 ? `${(number / 1e3).toFixed(1)}k` : number < 1e7 ? `${Math.round(number / 1e3)}k` : `${(number / 1e6).toFixed(1)}M`);
const duration = (seconds) => (seconds > 0 && seconds < 9.95 ? `${seconds.toFixed(1)} s` : seconds < 90 ? `${Math.round(seconds)} s` : seconds < 5400 ? `${(seconds / 60).toFixed(seconds < 600 ? 1 : 0)} min` : `${(seconds / 3600).toFixed(1)} h`);

async function fillLadder() {
  ladder = await ask("ladder", { ...about.game, moves: [] });
  drawLadder();
  while (ladder.calibrating) {
    await new Promise((done) => setTimeout(done, 1500));
    ladder = await ask("ladder", { ...about.game, moves: [] });
    drawLadder();
  }
}

function drawLadder() {
  const { rungs } = ladder;
  $("rung").max = rungs.length - 1;
  const at = rungs.findIndex(({ agent }) => agent === $("opponent").value);
  if (at >= 0) $("rung").value = at;
  const rung = rungs[at];
  $("rung-name").textContent = rung ? rung.agent : "(not on the ladder)";
  $("rung").setAttribute("aria-valuetext", rung ? rung.agent : "own choice");
  $("rung-elo").textContent = ladder.trouble || (ladder.calibrating ? `measuring: ${ladder.progress}` : rung?.elo !== undefined ? `${rung.elo} Elo (+${rung.plus} −${rung.minus}) above the weakest, ${rung.games} games` : "not measured yet");
  $("calibrate").hidden = ladder.calibrating;
}

function setPlayers() {
  const side = $("side").querySelector('[aria-checked="true"]').dataset.side, opponent = $("opponent").value.trim() || "random";
  players = side === "both" ? ["human", "human"] : side === "none" ? [opponent, opponent] : side === "0" ? ["human", opponent] : [opponent, "human"];
}

const changedPlayers = guarded(async () => {
  setPlayers();
  drawLadder();
  draw();
  await letAgentMove();
});

async function show(name) {
  view = name;
  choose(TABS, "aria-selected", TABS.querySelector(`[data-view="${name}"]`));
  const onTable = name === "play" || name === "analyse";
  $("table").hidden = !onTable;
  $("watch").hidden = name !== "watch";
  $("suites").hidden = name !== "suites";
  $("play-panel").hidden = name !== "play";
  $("analyse-panel").hidden = name !== "analyse";
  if (name !== "play") stopWorking();
  remember();
  if (onTable) {
    draw();
    think();
    if (name === "play") letAgentMove();
  }
  if (name === "watch") watch();
  if (name === "suites") openSuites();
}

// ---- watch

let watched = [], watchTimer = null;

const watch = guarded(async () => {
  clearTimeout(watchTimer);
  if (view !== "watch") return;
  setup.runs = (await ask("runs")).runs;
  $("watch-note").textContent = setup.runs.length ? "Choose one, or two to compare. What is still training comes in by itself." : "No folder of runs was given: azjax serve RUNS shows them here.";
  if (!watched.length && setup.runs.length) watched = [setup.runs[0].name];
  redraw($("run-cards"), setup.runs.map(card));
  const found = await Promise.all(watched.map((run) => ask("run", { run })));
  drawCharts(watched.map((name, i) => ({ name, curves: found[i].curves })));
  $("replay").hidden = !watched.length;
  watchTimer = setTimeout(watch, setup.runs.some(({ live }) => live) ? 3000 : 15000);
});

function card(run) {
  const chosenNow = watched.includes(run.name), button = el("button", { className: "card" });
  button.dataset.key = run.name;
  button.setAttribute("aria-pressed", chosenNow);
  if (run.damaged) {
    button.append(el("b", { textContent: run.name }), "cannot be read");
    button.disabled = true;
    return button;
  }
  const game = Object.entries(run.game).map(([name, value]) => (name === "game" ? value : `${name} ${value}`)).join(", ");
  button.append(
    el("b", {}, run.name, run.live ? el("span", { className: "live", textContent: "● training" }) : ""),
    el("div", { className: "quiet small", textContent: game }),
    el("progress", { max: run.iterations, value: run.iteration, title: `${run.iteration} of ${run.iterations} iterations` }),
    el("div", { className: "small", textContent: `iteration ${run.iteration} of ${run.iterations}${run.seconds ? `, ${duration(run.seconds)}` : ""}${run.left ? `, about ${duration(run.left)} left` : ""}` }),
    el("div", { className: "quiet small", textContent: `${(run.games ?? 0).toLocaleString("en")} games, ${(run.positions ?? 0).toLocaleString("en")} positions` }),
  );
  button.querySelector("progress").setAttribute("aria-label", "progress");
  button.addEventListener("click", () => {
    watched = chosenNow ? watched.filter((name) => name !== run.name) : [...watched, run.name].slice(-2);
    watch();
  });
  return button;
}

const COLOURS = ["var(--network)", "var(--search)", "var(--truth)", "var(--lost)"];

function drawCharts(runs) {
  const there = new Set(runs.flatMap(({ curves }) => Object.keys(curves).map((name) => name.split("/")[0])));
  const titles = ["strength", "truth", "loss", "speed"].filter((title) => there.has(title));
  const axis = Number($("axis").value);
  $("charts").replaceChildren(...titles.map((title) => {
    const lines = runs.flatMap(({ name, curves }, which) => Object.entries(curves).filter(([curve]) => curve.startsWith(`${title}/`)).map(([curve, points]) => ({ name: curve, label: `${runs.length > 1 ? `${name}: ` : ""}${curve.slice(title.length + 1)}`, points: points.map((p) => [p[axis], ...p.slice(2)]), which })));
    return chart(title, lines, title === "strength" || title === "truth");
  }));
}

// A curve has the colour of its name; of a second run it is dashed.
function chart(title, lines, isShare) {
  const names = [...new Set(lines.map(({ name }) => name))];
  const look = ({ name, which }) => ({ colour: COLOURS[names.indexOf(name) % COLOURS.length], dashes: which ? "6 4" : "" });
  const width = 380, height = 210, left = 40, right = 10, top = 12, bottom = 26;
  const all = lines.flatMap(({ points }) => points);
  const latest = Math.max(1e-9, ...all.map(([x]) => x));
  const high = isShare ? 1 : Math.max(1e-9, ...all.map(([, y]) => y)) * 1.05;
  const x = (value) => left + (width - left - right) * value / latest;
  const y = (value) => top + (height - top - bottom) * (1 - value / high);
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${title} over time` });
  for (let i = 0; i <= 4; i += 1) {
    const value = high * i / 4;
    svg("line", { x1: left, x2: width - right, y1: y(value), y2: y(value), class: "zero" }, picture);
    svg("text", { x: left - 5, y: y(value) + 3.5, "text-anchor": "end" }, picture, isShare ? `${Math.round(100 * value)} %` : value >= 100 ? short(value) : value.toFixed(1));
    svg("text", { x: x(latest * i / 4), y: height - 8, "text-anchor": i === 4 ? "end" : "middle" }, picture, $("axis").value === "0" ? duration(latest * i / 4) : short(latest * i / 4));
  }
  for (const one of lines) {
    const { points } = one, { colour, dashes } = look(one);
    if (points[0].length > 3 && points.length === 1) svg("line", { x1: x(points[0][0]), x2: x(points[0][0]), y1: y(points[0][2]), y2: y(points[0][3]), stroke: colour, opacity: 0.5, "stroke-width": 2 }, picture);
    else if (points[0].length > 3) {
      const band = [...points.map((p) => `${x(p[0])},${y(p[3])}`), ...[...points].reverse().map((p) => `${x(p[0])},${y(p[2])}`)].join(" ");
      svg("polygon", { points: band, fill: colour, opacity: 0.14 }, picture);
    }
    svg("polyline", { points: points.map((p) => `${x(p[0])},${y(p[1])}`).join(" "), class: "curve", stroke: colour, "stroke-dasharray": dashes }, picture);
    if (points.length < 12) for (const p of points) svg("circle", { cx: x(p[0]), cy: y(p[1]), r: 2.6, fill: colour }, picture);
  }
  const legend = el("figcaption", { className: "legend" });
  for (const one of lines) {
    const { colour, dashes } = look(one), sign = svg("svg", { width: 24, height: 4, class: "stroke" });
    svg("line", { x1: 0, x2: 24, y1: 2, y2: 2, stroke: colour, "stroke-width": 3, "stroke-dasharray": dashes }, sign);
    legend.append(el("span", {}, sign, one.label));
  }
  return el("figure", { className: "chart" }, el("h2", { textContent: title }), picture, legend);
}

let replayed = null;
const replayBoard = new Board($("replay-board"));

const selfplay = guarded(async () => {
  $("selfplay-note").textContent = "playing, with the search and the noise of its training …";
  try {
    const { line } = await ask("selfplay", { run: watched.at(-1), seed: Math.floor(Math.random() * 2 ** 31) });
    const { moves, ...game } = line;
    replayed = { line, told: await ask("layout", { ...game, moves: [] }) };
    $("replay-game").hidden = false;
    $("replay-slider").max = moves.length;
    $("replay-slider").value = moves.length;
    $("selfplay-note").textContent = `${moves.length} moves by the newest weights of ${watched.at(-1)}`;
    await showReplay();
  } catch (error) {
    $("selfplay-note").textContent = "";
    throw error;
  }
});

const showReplay = guarded(async () => {
  if (!replayed) return;
  const ply = Number($("replay-slider").value), { moves, ...game } = replayed.line;
  const position = await ask("position", { ...game, moves: moves.slice(0, ply) });
  $("replay-out").textContent = ply ? `${ply}. ${moves[ply - 1]}` : "start";
  replayBoard.show({ layout: replayed.told.layout, position, open: false, theme: isDark() ? "dark" : "light" });
});

// ---- suites

function openSuites() {
  $("suite").replaceChildren(...setup.suites.map((name) => el("option", { textContent: name, value: name })));
  const playable = setup.runs.filter(({ playable: is }) => is);
  $("suite-agents").replaceChildren(...["random", "uct:50", "uct:200", ...playable.flatMap(({ name }) => [`net:${name}`, `az:${name}?sims=64`])].map((value) => el("option", { value })));
  $("suite-agent").value ||= "uct:50";
}

const askSuite = guarded(async () => {
  const fields = { suite: $("suite").value, agent: $("suite-agent").value.trim() };
  $("answers").replaceChildren();
  $("suite-result").replaceChildren();
  for (;;) {
    const told = await ask("suite", fields);
    if (told.status === "failed") {
      $("suite-result").replaceChildren();
      throw new ServerError(told.why);
    }
    if (told.status === "done") { showAnswers(told, fields); return; }
    $("suite-result").textContent = `asked ${told.done} of ${told.total} positions …`;
    await new Promise((done) => setTimeout(done, 800));
    if (view !== "suites") return;
  }
});

async function showAnswers(told, { suite, agent }) {
  const wrong = told.answers.filter(({ correct }) => !correct), range = told.interval.map((one) => (100 * one).toFixed(1)).join(" to ");
  $("suite-result").replaceChildren(
    el("p", {}, el("span", { className: "big", textContent: `${(100 * told.share).toFixed(1)} %` }), ` of ${told.answers.length} positions right (${range}); a random mover ${(100 * told.chance).toFixed(1)} %`),
    el("p", { className: "quiet", textContent: wrong.length ? `${agent} was wrong in these of ${suite}; click to see why:` : `${agent} was right everywhere in ${suite}.` }),
  );
  const layouts = new Map();
  for (const one of wrong.slice(0, 60)) {
    const { moves = [], position: start, optimal, value, ...game } = one.line;
    const known = JSON.stringify(game);
    if (!layouts.has(known)) layouts.set(known, await ask("layout", { ...game, moves: [] }));
    const about_ = layouts.get(known), line = { ...game, ...(start ? { start } : {}), moves };
    const position = await ask("position", line);
    const button = el("button", { className: "answer" });
    button.setAttribute("aria-label", `position ${one.number}: played ${one.move}, right would be ${optimal.join(", ")}`);
    const small = new Board(button);
    small.svg.removeAttribute("tabindex");
    small.show({ layout: about_.layout, position, open: false, theme: isDark() ? "dark" : "light" });
    button.append(el("div", { className: "small" }, `${one.number}. played `, el("b", { className: "lost", textContent: one.move ?? "nothing legal" })), el("div", { className: "small quiet", textContent: `right: ${optimal.slice(0, 6).join(", ")}` }));
    button.addEventListener("click", guarded(async () => {
      if (/^(az|net|uct)/.test(agent)) chosen.analyst = agent.replace(/\?.*/, "");
      view = "analyse";
      await begin(game, { start: start ?? null, moves });
      await show("analyse");
    }));
    $("answers").append(button);
  }
}

// ---- what is clicked

const on = (id, event, work) => $(id).addEventListener(event, guarded(work));
const copied = async (text, what) => {
  try {
    await navigator.clipboard.writeText(text);
    say(`${what} copied`);
  } catch {
    $("setup").open = true;
    $("paste").value = text;
    $("paste").select();
    say(`${what} stands in the field below, to be copied`);
  }
};

for (const tab of document.querySelectorAll("nav [data-view]")) tab.addEventListener("click", guarded(() => show(tab.dataset.view)));
on("home", "click", async (event) => { event.preventDefault(); await show("play"); });
on("first", "click", () => go(root));
on("back", "click", () => here.parent && go(here.parent));
on("forward", "click", () => here.children.length && go(here.children.at(-1)));
on("last", "click", () => go(tipOf(here)));
on("undo", "click", undo);
on("hint", "click", hint);
on("resign", "click", async () => {
  if (!here.position) return;
  ended = here.position.player;
  stopWorking();
  draw();
});
on("calibrate", "click", async () => { ladder = await ask("ladder", { ...about.game, moves: [], calibrate: true }); await fillLadder(); });
on("rung", "input", () => {
  $("opponent").value = ladder.rungs[Number($("rung").value)].agent;
  drawLadder();
});
on("rung", "change", changedPlayers);
on("opponent", "change", changedPlayers);
on("effort", "change", () => {
  $("effort-number").hidden = $("effort").value === "own";
  $("effort-number").value = $("effort").value === "seconds" ? 1 : 200;
});
on("game", "change", fillOptions);
on("game-form", "submit", async (event) => { event.preventDefault(); await begin(gameOfForm()); });
on("take", "click", async () => {
  const { line } = await ask("read", { ...about.game, text: $("paste").value });
  const { moves, start, ...game } = line;
  await begin(game, { start: start ?? null, moves });
});
on("here", "click", async () => {
  if (!here.position?.notation) throw new ServerError("this game has no notation of positions; give its moves instead");
  await begin(about.game, { start: here.position.notation });
});
on("share", "click", async () => { remember(); await copied(location.href.replace(/\?token=[^#]*/, ""), "the address"); });
on("save", "click", async () => {
  const told = await ask("write", { ...lineOf(tipOf(here)), players: players.map((name) => (name === "human" ? "" : name)) });
  await copied(told.sgf ?? told.plain, "the game");
});
for (const button of $("side").children) {
  button.addEventListener("click", () => {
    choose($("side"), "aria-checked", button);
    changedPlayers();
  });
}
choose($("side"), "aria-checked", $("side").children[0]);
arrowsChoose($("side"));
choose(TABS, "aria-selected", TABS.children[0]);
arrowsChoose(TABS);
for (const button of document.querySelectorAll("[data-layer]")) {
  button.addEventListener("click", () => {
    layers[button.dataset.layer] = !layers[button.dataset.layer];
    button.setAttribute("aria-pressed", layers[button.dataset.layer]);
    draw();
  });
}
on("analyst", "change", async () => {
  chosen.analyst = $("analyst").value.trim();
  chosen.step = null;
  fillCheckpoints();
  draw();
  await think();
});
on("visits", "input", () => { $("visits-out").textContent = 2 ** Number($("visits").value); });
on("visits", "change", async () => { chosen.visits = 2 ** Number($("visits").value); draw(); await think(); });
on("checkpoint", "input", () => tellCheckpoint($("checkpoint").steps));
on("checkpoint", "change", async () => {
  const steps = $("checkpoint").steps, at = Number($("checkpoint").value);
  chosen.step = at === steps.length - 1 ? null : steps[at].step;
  draw();
  await think();
});
on("sim", "input", showTree);
on("steps-box", "toggle", showTree);
on("sim-back", "click", () => stepTree(-1));
on("sim-forward", "click", () => stepTree(1));
on("sim-play", "click", () => {
  clearInterval(simTimer);
  if ($("sim-play").textContent === "Stop") { $("sim-play").textContent = "Run"; return; }
  $("sim-play").textContent = "Stop";
  simTimer = setInterval(async () => {
    if (Number($("sim").value) >= Number($("sim").max) || view !== "analyse") { clearInterval(simTimer); $("sim-play").textContent = "Run"; return; }
    await stepTree(1);
  }, 550);
});
on("selfplay", "click", selfplay);
on("replay-slider", "input", showReplay);
on("replay-open", "click", async () => {
  if (!replayed) return;
  const { moves, start, ...game } = replayed.line;
  view = "analyse";
  await begin(game, { moves });
  await show("analyse");
});
on("axis", "change", watch);
on("ask", "click", askSuite);
on("help", "click", () => $("helping").showModal());
on("theme", "click", () => {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  try { localStorage.setItem("azjax-theme", document.documentElement.dataset.theme); } catch { /* a browser that keeps nothing */ }
  draw();
});

async function undo() {
  stopWorking();
  let node = here.parent;
  // Back to where a person was to move, in a game against an agent.
  while (view === "play" && node?.parent && players.includes("human") && players[(await load(node)).player] !== "human") node = node.parent;
  if (!node) return;
  if (view === "play") node.children = [];
  ended = null;
  await go(node);
}

async function hint() {
  const node = here, agent = players.find((name) => name !== "human") ?? chosen.analyst;
  const told = await ask("move", { ...lineOf(node), agent });
  if (here !== node) return;
  say(told.move ? `hint: ${told.move}` : "no hint: it would resign");
  hintAt = node;
  node.hint = told.action;
  draw();
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName) || $("table").hidden || $("helping").open) return;
  const press = { ArrowLeft: "back", ArrowRight: "forward", Home: "first", End: "last", u: "undo", h: "hint" }[event.key];
  const layer = { 1: "network", 2: "search", 3: "truth" }[event.key];
  if (press) $(press).click();
  else if (layer) document.querySelector(`[data-layer="${layer}"]`).click();
  else if (event.key === "a") guarded(show)("analyse");
  else if (event.key === "p") guarded(show)("play");
  else return;
  event.preventDefault();
});
addEventListener("hashchange", guarded(async () => {
  const wanted = remembered();
  if (wanted) { await begin(wanted.game, wanted); if (wanted.view !== view) await show(wanted.view); }
}));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw());

guarded(async () => {
  try { const kept = localStorage.getItem("azjax-theme"); if (kept) document.documentElement.dataset.theme = kept; } catch { /* nothing kept */ }
  Object.assign(setup, await ask("setup"));
  $("game").replaceChildren(...setup.games.map(({ name }) => el("option", { value: name, textContent: name.replaceAll("_", " ") })));
  const wanted = remembered();
  try {
    await begin(wanted?.game ?? setup.game, wanted ?? {});
    if (wanted && wanted.view !== view) await show(wanted.view);
  } catch (error) {
    await begin(setup.game);
    say(`the address names no game: ${error.message}`, "wrong");
  }
  document.documentElement.dataset.ready = "yes";
})();
