// The board: draws any game from its layout, and tells which action was chosen. It knows no game.
//
// On the page: `new Board(element, {play, hover})`, then `show(view)`. In notebooks this file is the `_esm` of an
// anywidget, whose `render` is the default export.
//
// A view: {layout, position, theme, open (may be clicked), thoughts (action -> {prior, visits, value, proven, best}),
// layers ({network, search, truth, ownership}), ownership, blunder (an action)}.

const NS = "http://www.w3.org/2000/svg";

function make(tag, attributes = {}, parent = null, text = null) {
  const element = document.createElementNS(NS, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== null) element.textContent = text;
  parent?.appendChild(element);
  return element;
}

export const percent = (share) => `${Math.round(100 * share)}`;

// A win, a loss, a draw or a margin, as a sign and a class.
export function verdictOf(proven) {
  if (!proven || proven.low !== proven.high) return null;
  const kind = proven.low > 0 ? "won" : proven.low < 0 ? "lost" : "even";
  return { kind, sign: { won: "✓", lost: "✗", even: "=" }[kind], word: { won: "wins", lost: "loses", even: "draws" }[kind] };
}

export class Board {
  constructor(parent, { play = () => {}, hover = () => {} } = {}) {
    this.play = play;
    this.hover = hover;
    this.chosen = null; // the place that a move is to begin from
    this.cursor = null; // of the keyboard
    this.variation = []; // actions that are expected from here
    this.parent = parent;
    this.svg = make("svg", { class: "azboard", tabindex: 0, role: "application" }, parent);
    this.svg.addEventListener("keydown", (event) => this.key(event));
    this.before = new Set();
  }

  show(view) {
    const changed = !this.view || this.view.position !== view.position;
    this.view = view;
    if (changed) [this.chosen, this.variation] = [null, []];
    this.draw();
  }

  // Shows the actions that are expected, in the place of what is thought of each.
  expect(variation) {
    if (!this.view || (!variation.length && !this.variation.length)) return;
    this.variation = variation;
    this.draw();
  }

  // The actions of a place: those that are about it alone, or that begin there.
  at(place) {
    const { layout, position } = this.view;
    const stands = layout.places[place].stands_for ?? place;
    return position.legal.filter(({ action }) => {
      const places = layout.actions[action];
      if (!places.length) return false;
      if (this.chosen !== null && places.length > 1) return places[0] === this.chosen && places[1] === place;
      return places[0] === stands;
    });
  }

  draw() {
    const { layout, position } = this.view;
    this.svg.replaceChildren();
    this.svg.setAttribute("aria-label", layout ? "board: arrow keys move, Enter plays" : "board: a picture, whose moves are buttons");
    if (!layout) return this.drawPicture();
    this.svg.setAttribute("viewBox", `0 0 ${layout.width} ${layout.height}`);
    this.svg.style.maxHeight = `${2.3 * layout.height}px`; // small boards need not fill the page
    const edges = make("g", {}, this.svg);
    for (const edge of layout.edges) make("polyline", { class: "edge-rim", points: join(edge.points) }, edges);
    for (const edge of layout.edges) make("polyline", { class: `edge edge${edge.owner}`, points: join(edge.points) }, edges);
    const owners = new Map(position.pieces);
    const tints = new Map(position.tints);
    const places = make("g", {}, this.svg);
    // Cells first, lines above them.
    const order = layout.places.map((_, i) => i).sort((a, b) => !!layout.places[a].line - !!layout.places[b].line);
    const now = new Set();
    for (const i of order) this.drawPlace(places, i, owners, tints, now);
    for (const [x, y] of layout.dots) make("circle", { cx: x, cy: y, r: 5, class: "dot" }, this.svg);
    for (const [x, y, text] of layout.labels) make("text", { x, y, class: "label" }, this.svg, text);
    this.before = now;
    if (!this.variation.length) this.drawThoughts();
    this.drawLast();
    this.drawVariation();
    this.drawCursor();
  }

  drawPicture() {
    const { position, theme = "light" } = this.view;
    const picture = position.pictures[theme];
    const size = picture.match(/width="([\d.]+)" height="([\d.]+)"/) ?? [0, 400, 400];
    this.svg.setAttribute("viewBox", `0 0 ${size[1]} ${size[2]}`);
    const address = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(picture)}`;
    make("image", { href: address, width: size[1], height: size[2] }, this.svg);
  }

  drawPlace(parent, i, owners, tints, now) {
    const { layout, position, open = true, ownership, layers = {} } = this.view;
    const place = layout.places[i];
    const owner = owners.get(i);
    const actions = open && !position.over ? this.at(i) : [];
    const names = ["place"];
    if (actions.length) names.push("open");
    if (place.home !== undefined) names.push(`home${place.home}`);
    if (tints.has(i)) names.push(`tint${tints.get(i)}`);
    if (place.idle) names.push("boxed");
    if (this.chosen === i) names.push("chosen");
    const isGoal = this.chosen !== null && actions.some(({ action }) => layout.actions[action].length > 1);
    const group = make("g", { class: names.join(" "), "data-place": i }, parent);
    if (actions.length) {
      group.setAttribute("role", "button");
      group.setAttribute("aria-label", this.describe(i, owner, actions));
    }
    if (place.line) {
      const [x1, y1, x2, y2] = place.line;
      make("line", { x1, y1, x2, y2, class: owner === undefined ? "slot" : "drawn" }, group);
      make("line", { x1, y1, x2, y2, class: "touch" }, group);
    } else if (place.points) make("polygon", { points: join(place.points), class: "ground" }, group);
    else make("circle", { cx: place.x, cy: place.y, r: place.round ?? place.r, class: "ground" }, group);
    if (layers.ownership && ownership?.[i]) {
      const value = ownership[i] * (position.player === 0 ? 1 : -1);
      const size = 8 * Math.sqrt(Math.abs(value));
      const kind = `stone stone${value > 0 ? 0 : 1}`;
      make("rect", { x: place.x - size, y: place.y - size, width: 2 * size, height: 2 * size, class: kind, opacity: .75 }, group);
    }
    if (owner !== undefined && !place.line) {
      const key = `${i}:${owner}`;
      now.add(key);
      const fresh = this.before.size && !this.before.has(key) ? " fresh" : "";
      make("circle", { cx: place.x, cy: place.y, r: place.r, class: `stone stone${owner}${fresh}` }, group);
    }
    if (isGoal) make("circle", { cx: place.x, cy: place.y, r: 6.5, class: "goal" }, group);
    if (place.idle && tints.has(i)) make("text", { x: place.x, y: place.y, class: "variation" }, group, layout.names[tints.get(i)]);
    group.addEventListener("click", () => this.click(i));
    group.addEventListener("pointerenter", () => this.hover(actions.length === 1 ? actions[0].action : null));
    group.addEventListener("pointerleave", () => this.hover(null));
  }

  describe(i, owner, actions) {
    const { layout, thoughts = {} } = this.view;
    const parts = [actions.map(({ move }) => move).slice(0, 4).join(" or ")];
    if (owner !== undefined && owner < 2) parts.push(`a piece of ${layout.names[owner]}`);
    const thought = actions.length === 1 ? thoughts[actions[0].action] : null;
    if (thought?.value != null) parts.push(`search ${percent((thought.value + 1) / 2)} %`);
    if (thought?.proven) parts.push(verdictOf(thought.proven)?.word ?? "unknown");
    return parts.join(", ");
  }

  // Of each action what is thought of it, where it is about a place; of moves from place to place the best as arrows.
  drawThoughts() {
    const { layout, position, thoughts = {}, layers = {} } = this.view;
    const legal = position.legal.filter(({ action }) => thoughts[action]);
    if (!legal.length) return;
    const most = Math.max(1, ...legal.map(({ action }) => thoughts[action].visits ?? 0));
    const likely = Math.max(1e-9, ...legal.map(({ action }) => thoughts[action].prior ?? 0));
    const onBoard = make("g", { "pointer-events": "none" }, this.svg);
    const pairs = legal.filter(({ action }) => layout.actions[action].length > 1);
    for (const { action } of legal.filter(({ action }) => layout.actions[action].length === 1)) {
      const place = this.standing(layout.actions[action][0]);
      this.drawThought(onBoard, layout.places[place], thoughts[action], most, likely);
    }
    const weight = ({ action }) => (layers.hint && thoughts[action].best ? 9 : 0) + (layers.search && thoughts[action].visits ? thoughts[action].visits / most : 0)
      + (layers.network ? 0.9 * (thoughts[action].prior ?? 0) / likely : 0) + (layers.truth && thoughts[action].proven ? 1e-3 : 0);
    const shown = this.chosen !== null ? pairs.filter(({ action }) => layout.actions[action][0] === this.chosen)
      : [...pairs].sort((a, b) => weight(b) - weight(a)).slice(0, 5).filter((one) => weight(one) > 0.02);
    for (const { action } of shown.reverse()) this.drawArrow(onBoard, layout.actions[action], thoughts[action], most, likely);
  }

  // Where a stone of this place comes to stand: in a column the topmost free cell is not known, so its first cell.
  standing(place) {
    return place;
  }

  drawThought(parent, place, thought, most, likely) {
    const { layers = {} } = this.view;
    const share = (thought.prior ?? 0) / likely;
    if (layers.network && thought.prior != null) {
      const opacity = 0.62 * share;
      if (place.line) {
        const [x1, y1, x2, y2] = place.line;
        make("line", { x1, y1, x2, y2, class: "heat", opacity }, parent);
      } else if (place.points) make("polygon", { points: join(place.points), class: "heat", opacity }, parent);
      else make("circle", { cx: place.x, cy: place.y, r: place.round, class: "heat", opacity }, parent);
    }
    if (layers.search && thought.visits) {
      const width = 1 + 3.6 * thought.visits / most;
      if (place.line) {
        make("circle", { cx: place.x, cy: place.y, r: 12.5, class: "plate" }, parent);
        make("circle", { cx: place.x, cy: place.y, r: 12.5, class: "visits", "stroke-width": width }, parent);
      } else make("circle", { cx: place.x, cy: place.y, r: place.r, class: "visits", "stroke-width": width }, parent);
    }
    if ((layers.search || layers.hint) && thought.best) this.drawStar(parent, place.line ? place.x - 13 : place.x - 11.5, place.line ? place.y - 11 : place.y - 12);
    const main = layers.search && thought.visits ? percent((thought.value + 1) / 2) : null;
    const small = layers.network && thought.prior != null && !place.line && thought.prior >= 0.005 ? `${percent(thought.prior)}%` : null;
    if (main !== null) make("text", { x: place.x, y: place.y - (small && !place.line ? 3.2 : 0), class: "main" }, parent, main);
    if (small !== null) make("text", { x: place.x, y: place.y + (main !== null ? 8 : 0), class: main !== null ? "small" : "main" }, parent, small);
    if (layers.truth) this.drawVerdict(parent, place.line ? place.x + 13 : place.x + 11.5, place.line ? place.y - 11 : place.y - 12, thought.proven);
  }

  drawVerdict(parent, x, y, proven) {
    const verdict = verdictOf(proven);
    if (!verdict) return;
    make("circle", { cx: x, cy: y, r: 6.4, class: `verdict ${verdict.kind}` }, parent);
    make("text", { x, y: y + 0.3, class: "verdict-sign" }, parent, verdict.sign);
  }

  drawArrow(parent, [from, to], thought, most, likely) {
    const { layout, layers = {}, position } = this.view;
    const a = layout.places[from], b = layout.places[to];
    const bySearch = layers.search && thought.visits;
    const share = bySearch ? thought.visits / most : (thought.prior ?? 0) / likely;
    const colour = bySearch ? "var(--search)" : "var(--network)";
    if (bySearch || (layers.network && thought.prior != null)) {
      const path = Object.entries(position.paths ?? {}).find(([action]) => layout.actions[action][0] === from && layout.actions[action][1] === to)?.[1] ?? [from, to];
      const points = path.map((i) => [layout.places[i].x, layout.places[i].y]);
      make("polyline", { points: join(points), class: "arrow", stroke: colour, "stroke-width": 2 + 6 * share, opacity: 0.35 + 0.5 * share }, parent);
      make("circle", { cx: b.x, cy: b.y, r: 14, class: "plate" }, parent);
      make("circle", { cx: b.x, cy: b.y, r: 14, class: "visits", style: `stroke:${colour}`, "stroke-width": 1 + 3 * share }, parent);
      make("text", { x: b.x, y: b.y, class: "main" }, parent, bySearch ? percent((thought.value + 1) / 2) : `${percent(thought.prior)}%`);
    } else if (layers.hint && thought.best) make("line", { x1: a.x, y1: a.y, x2: b.x, y2: b.y, class: "arrow", stroke: "var(--search)", "stroke-width": 6 }, parent);
    if ((layers.search || layers.hint) && thought.best) this.drawStar(parent, b.x - 12, b.y - 12);
    if (layers.truth) this.drawVerdict(parent, b.x + 12, b.y - 12, thought.proven);
  }

  // What would be played.
  drawStar(parent, x, y) {
    const corners = Array.from({ length: 10 }, (_, i) => {
      const angle = Math.PI * (i / 5 - 0.5), radius = i % 2 ? 3.1 : 7;
      return [(x + radius * Math.cos(angle)).toFixed(2), (y + radius * Math.sin(angle)).toFixed(2)];
    });
    make("polygon", { points: join(corners), class: "star" }, parent);
  }

  drawLast() {
    const { layout, position, blunder } = this.view;
    if (position.last === null) return;
    const places = layout.actions[position.last] ?? [];
    const path = position.last_path ?? (places.length > 1 ? places : null);
    if (path) make("polyline", { points: join(path.map((i) => [layout.places[i].x, layout.places[i].y])), class: "path" }, this.svg);
    let place = places.at(-1);
    if (place === undefined) return;
    // In a column it is the highest stone that came last.
    const column = layout.places.map((p, i) => i).filter((i) => layout.places[i].stands_for === place);
    if (column.length) place = column.find((i) => position.pieces.some(([j]) => j === i)) ?? place;
    const at = layout.places[place];
    const kind = blunder === position.last ? "blunder" : "last";
    if (at.line) {
      const [x1, y1, x2, y2] = at.line;
      make("line", { x1, y1, x2, y2, class: kind }, this.svg);
    } else make("circle", { cx: at.x, cy: at.y, r: at.r - 3, class: kind }, this.svg);
  }

  drawVariation() {
    const { layout, position } = this.view;
    const group = make("g", { class: "ghost", "pointer-events": "none" }, this.svg);
    let player = position.player;
    this.variation.slice(0, 9).forEach((action, number) => {
      const place = layout.places[layout.actions[action]?.at(-1)], mover = player;
      player = 1 - player;
      if (!place) return; // a swap or a pass
      if (place.line) {
        const [x1, y1, x2, y2] = place.line;
        make("line", { x1, y1, x2, y2, class: "drawn" }, group);
        make("circle", { cx: place.x, cy: place.y, r: 10, class: "plate" }, group);
        make("text", { x: place.x, y: place.y, class: "main" }, group, number + 1);
        return;
      }
      make("circle", { cx: place.x, cy: place.y, r: place.r, class: `stone stone${mover}` }, group);
      make("text", { x: place.x, y: place.y, class: `variation variation${mover}` }, group, number + 1);
    });
  }

  click(i) {
    const { layout, position, open = true } = this.view;
    if (!open || position.over) return;
    const actions = this.at(i);
    if (!actions.length) {
      // Another piece may be taken up instead.
      const had = this.chosen;
      this.chosen = null;
      if (had !== null && had !== i && this.at(i).length) this.chosen = i;
      if (had !== null) this.draw();
      return;
    }
    if (layout.actions[actions[0].action].length === 1 || this.chosen !== null) {
      this.chosen = null;
      this.play(actions[0].action);
      return;
    }
    this.chosen = i;
    this.draw();
  }

  key(event) {
    const { layout } = this.view ?? {};
    if (!layout || event.ctrlKey || event.metaKey || event.altKey) return;
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (step) {
      this.moveCursor(this.nearest(step));
    } else if ((event.key === "Enter" || event.key === " ") && this.cursor !== null) {
      this.click(this.cursor);
    } else if (event.key === "Escape" && this.chosen !== null) {
      this.chosen = null;
      this.draw();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  // The next place in a direction: near, and not far off to the side.
  nearest([dx, dy]) {
    const { layout } = this.view;
    const usable = layout.places.map((place, i) => ({ ...place, i })).filter((place) => !place.idle);
    if (this.cursor === null) return usable[Math.floor(usable.length / 2)].i;
    const from = layout.places[this.cursor];
    let best = this.cursor, least = Infinity;
    for (const place of usable) {
      const ahead = (place.x - from.x) * dx + (place.y - from.y) * dy;
      const aside = Math.abs((place.x - from.x) * dy) + Math.abs((place.y - from.y) * dx);
      if (ahead > 1 && ahead + 2.2 * aside < least) [best, least] = [place.i, ahead + 2.2 * aside];
    }
    return best;
  }

  moveCursor(i) {
    this.cursor = i;
    this.drawCursor();
    const actions = this.at(i);
    this.hover(actions.length === 1 ? actions[0].action : null);
  }

  drawCursor() {
    this.svg.querySelector(".cursor")?.remove();
    const place = this.view.layout.places[this.cursor];
    if (!place) {
      this.cursor = null; // of a larger board
      return;
    }
    make("circle", { class: "cursor", r: 17, cx: place.x, cy: place.y }, this.svg);
    const owner = new Map(this.view.position.pieces).get(this.cursor);
    const said = this.describe(this.cursor, owner, this.at(this.cursor)) || "nothing to play here";
    this.svg.setAttribute("aria-label", `board, ${said}`);
  }
}

const join = (points) => points.map((point) => point.join(",")).join(" ");

// The notebook's widget: Python sends views, clicks go back.
function render({ model, el }) {
  el.classList.add("azwidget");
  const holder = el.appendChild(document.createElement("div"));
  const line = el.appendChild(document.createElement("div"));
  line.className = "line";
  line.setAttribute("role", "status");
  const buttons = el.appendChild(document.createElement("div"));
  const board = new Board(holder, { play: (action) => model.send({ play: action }) });
  const update = () => {
    const view = model.get("view");
    if (!view.position) return;
    board.show({ ...view, theme: "light" });
    line.textContent = model.get("message");
    buttons.replaceChildren();
    const add = (text, content) => {
      const button = buttons.appendChild(document.createElement("button"));
      button.textContent = text;
      button.addEventListener("click", () => model.send(content));
    };
    for (const { action, move } of view.position.legal) {
      if (!view.layout || !view.layout.actions[action].length) add(move, { play: action });
    }
    add("undo", { undo: true });
  };
  model.on("change:view", update);
  model.on("change:message", update);
  update();
}

export default { render };
