// Drawing: lanes, faults, arrows, commands, the violation; and which event lies under the pointer.
//
// Only what the window of time holds is drawn. Text is drawn where it overlaps no other text, or not at all.

const LEFT = 92, AXIS = 24, FLAG = 22, LINK_ROW_MAX = 13, PILE = 9, LABEL = 15, LABELS_MAX = 3, CLOCK_HEIGHT = 15;
const FONT = "11px ui-monospace, 'DejaVu Sans Mono', Menlo, monospace";
const PLAIN = "12px system-ui, 'DejaVu Sans', sans-serif";
const MANY_ARROWS = 500;
const LABEL_EVERY = 26; // pixels that a command must have on average before commands are named
const LINK_FAULTS = new Set(["cut", "clog", "slow", "closed"]);

const diagram = document.getElementById("diagram");
const overview = document.getElementById("overview");
const paint = diagram.getContext("2d");
let colours = {};
let size = { width: 0, height: 0 };

function readColours() {
  const style = getComputedStyle(document.documentElement);
  colours = new Proxy({}, { get: (known, name) => known[name] ??= style.getPropertyValue(`--${name}`).trim() });
}

function fitCanvas(canvas, context) {
  const box = canvas.getBoundingClientRect();
  const ratio = devicePixelRatio || 1;
  const width = Math.round(box.width * ratio), height = Math.round(box.height * ratio);
  if (canvas.width !== width || canvas.height !== height) { canvas.width = width; canvas.height = height; }
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, box.width, box.height);
  return { width: box.width, height: box.height };
}

// Places

function xOf(at) {
  return LEFT + (at - view.from) / span() * (size.width - LEFT);
}

function timeAt(x) {
  return view.from + (x - LEFT) / (size.width - LEFT) * span();
}

function shownRegions() {
  return regionsOfRun.filter(number => filter.regions.has(number));
}

function linkRow() {
  return Math.min(LINK_ROW_MAX, size.height * 0.25 / run.pairs.length);
}

function linksTop() {
  return size.height - AXIS - run.pairs.length * linkRow() - 6;
}

function laneHeight() {
  return (linksTop() - FLAG) / Math.max(1, shownRegions().length);
}

function yOf(region) {
  const row = shownRegions().indexOf(region);
  return FLAG + (row + 0.58) * laneHeight();
}

function yOfCommand(command) {
  return yOf(command.region) + Math.min(command.order * PILE, laneHeight() * 0.3);
}

function yOfPair(a, b) {
  const row = run.pairs.findIndex(([low, high]) => low === Math.min(a, b) && high === Math.max(a, b));
  return linksTop() + 4 + (row + 0.5) * linkRow();
}

function colourOf(region) {
  return colours[`r${(region - 1) % 7 + 1}`];
}

// The picture

function draw() {
  size = fitCanvas(diagram, paint);
  paint.save();
  paint.beginPath();
  paint.rect(LEFT, 0, size.width - LEFT, size.height);
  paint.clip();
  drawAxis();
  drawLanes();
  const named = drawFaults();
  drawArrows();
  nameFaults(named);
  drawCommands();
  drawViolation();
  drawSelected();
  paint.restore();
  drawNames();
}

function line(x, y, toX, toY, colour, width = 1, dash = []) {
  paint.strokeStyle = colour;
  paint.lineWidth = width;
  paint.setLineDash(dash);
  paint.beginPath();
  paint.moveTo(x, y);
  paint.lineTo(toX, toY);
  paint.stroke();
  paint.setLineDash([]);
}

function words(text, x, y, colour, font = FONT, align = "left") {
  paint.font = font;
  paint.fillStyle = colour;
  paint.textAlign = align;
  paint.textBaseline = "middle";
  paint.fillText(text, x, y);
}

function tickEvery() {
  const wanted = span() / ((size.width - LEFT) / 110);
  const power = 10 ** Math.floor(Math.log10(wanted));
  return [1, 2, 5, 10].map(times => times * power).find(every => every >= wanted);
}

function drawAxis() {
  const every = Math.max(1, tickEvery()), base = size.height - AXIS;
  for (let at = Math.ceil(view.from / every) * every; at <= view.to; at += every) {
    if (at < 0 || at > end || xOf(at) < LEFT + 30) continue;
    line(xOf(at), FLAG, xOf(at), base, colours.line, 0.6);
    words(ms(at + 0), xOf(at), base + AXIS / 2, colours.quiet, PLAIN, "center");
  }
  line(LEFT, base, size.width, base, colours.lane);
  if (run.healed < end) {
    line(xOf(run.healed), FLAG, xOf(run.healed), base, colours.good, 1, [6, 4]);
    const left = run.violation || xOf(run.healed) > size.width - 130;
    words("everything healed", xOf(run.healed) + (left ? -4 : 4), FLAG / 2, colours.good, PLAIN, left ? "right" : "left");
  }
}

function drawLanes() {
  for (const region of shownRegions()) line(LEFT, yOf(region), size.width, yOf(region), colours.lane, 1.4);
  for (const [a, b] of run.pairs) line(LEFT, yOfPair(a, b), size.width, yOfPair(a, b), colours.line, 0.8);
  for (const { ends, at, until } of run.links) {
    if (until >= view.from && at <= view.to) line(xOf(at), yOfPair(...ends), xOf(until), yOfPair(...ends), colours.up, 2.5);
  }
}

function drawNames() {
  for (const { number, name, fsync } of run.regions) {
    if (!filter.regions.has(number)) continue;
    words(name, 8, yOf(number) - 8, colourOf(number), `bold ${PLAIN}`);
    words(`fsync ${fsync}`, 8, yOf(number) + 8, colours.quiet, "10px system-ui, 'DejaVu Sans', sans-serif");
  }
  const font = `${Math.min(10, linkRow())}px system-ui, 'DejaVu Sans', sans-serif`;
  for (const [a, b] of run.pairs) words(`link ${a} – ${b}`, 8, yOfPair(a, b), colours.quiet, font);
}

// Faults: a band in a lane, or in the row of a link. Kinds differ in hatching too, not in colour alone.

function boxOf(fault) {
  const x = xOf(fault.at), width = Math.max(3, xOf(fault.until) - x);
  if (LINK_FAULTS.has(fault.kind)) {
    const y = yOfPair(fault.region, fault.to);
    return { x, y: y - linkRow() / 2 + 1, width: fault.kind === "closed" ? 3 : width, height: linkRow() - 2 };
  }
  const top = yOf(fault.region) - laneHeight() * 0.5;
  return { x, y: top, width, height: fault.kind === "clock" ? CLOCK_HEIGHT : laneHeight() * 0.86 };
}

const HATCH = { kill: 8, rot: 7, power: 5, torn: 5, "disk-error": 5, "disk-loss": 4, pause: 12, "disk-full": 9, clock: 16, birth: 20, cut: 4, clog: 6, slow: 10 };

function hatch(context, box, kind, colour) {
  context.save();
  context.beginPath();
  context.rect(box.x, box.y, box.width, box.height);
  context.globalAlpha = kind === "birth" || kind === "clock" ? 0.1 : 0.2;
  context.fillStyle = colour;
  context.fill();
  context.clip();
  context.globalAlpha = 0.45;
  context.strokeStyle = colour;
  context.lineWidth = 1;
  context.beginPath();
  const low = Math.max(box.x, -50) - box.height, high = Math.min(box.x + box.width, size.width + 50);
  const first = box.x + Math.ceil((low - box.x) / HATCH[kind]) * HATCH[kind];
  for (let x = first; x < high; x += HATCH[kind]) {
    const lean = kind === "pause" || kind === "clock" ? 0 : box.height;
    context.moveTo(x, box.y + box.height);
    context.lineTo(x + lean, box.y);
  }
  context.stroke();
  context.restore();
}

// Draws the bands; returns those that have room for a name, which is written over the arrows.
function drawFaults() {
  const named = [];
  for (const fault of between("fault", view.from, view.to)) {
    const inLink = LINK_FAULTS.has(fault.kind);
    if (!inLink && !filter.regions.has(fault.region)) continue;
    const box = boxOf(fault);
    if (fault.kind === "closed") line(box.x, box.y, box.x, box.y + box.height, colours.bad, 2);
    else hatch(paint, box, fault.kind, colours[fault.kind]);
    if (!inLink) named.push([fault, box]);
  }
  return named;
}

function nameFaults(named) {
  const places = new Places();
  for (const [fault, box] of named) {
    paint.font = `bold ${PLAIN}`;
    const x = Math.max(box.x, LEFT) + 5, y = box.y + box.height - (fault.kind === "clock" ? 7 : 10);
    const wide = paint.measureText(fault.text).width;
    if (x + wide + 4 > box.x + box.width || !places.take(x, y - 7, wide, 14)) continue;
    backed(fault.text, x, y, wide, colours[fault.kind], `bold ${PLAIN}`);
  }
}

// Arrows

function arrowOf(message) {
  const from = yOf(message.region), to = yOf(message.to), down = Math.sign(to - from);
  const lost = message.arrived === null;
  const x = xOf(message.at), y = from + down * 7;
  const toX = lost ? x + 14 : xOf(message.arrived), toY = lost ? from + down * Math.min(40, Math.abs(to - from) / 3) : to - down * 7;
  return { x, y, toX, toY, lost };
}

function drawArrows() {
  const messages = between("message", view.from, view.to);
  const many = messages.length > MANY_ARROWS;
  const labels = new Places();
  for (const message of messages) drawArrow(message, many, labels);
}

function drawArrow(message, many, labels) {
  const arrow = arrowOf(message), faint = message.kind !== "data";
  const found = filter.find ? matches(message) : true;
  const dense = many ? Math.max(0.18, MANY_ARROWS / byType.message.length) : 0.85;
  paint.globalAlpha = !found ? 0.1 : faint ? dense * 0.5 : dense;
  const colour = colourOf(message.region);
  line(arrow.x, arrow.y, arrow.toX, arrow.toY, colour, faint ? 0.8 : many ? 1 : 1.5, faint ? [3, 3] : []);
  if (arrow.lost) cross(arrow.toX, arrow.toY, colours.bad, 3.5);
  else if (!many) head(arrow, colour);
  paint.globalAlpha = 1;
  if (!many && !faint && found) labelArrow(message, arrow, labels);
}

function head({ x, y, toX, toY }, colour) {
  const angle = Math.atan2(toY - y, toX - x), long = 8, wide = 0.38;
  paint.fillStyle = colour;
  paint.beginPath();
  paint.moveTo(toX, toY);
  paint.lineTo(toX - long * Math.cos(angle - wide), toY - long * Math.sin(angle - wide));
  paint.lineTo(toX - long * Math.cos(angle + wide), toY - long * Math.sin(angle + wide));
  paint.fill();
}

// A name stands in the first gap that its arrow crosses, not on a lane.
function lanesCrossed(message) {
  return Math.max(1, Math.abs(shownRegions().indexOf(message.to) - shownRegions().indexOf(message.region)));
}

function labelArrow(message, arrow, labels) {
  const text = clipped(message.parts.filter(part => /^\d+:/.test(part)).map(part => part.split(" ")[0]).join(" "), 26);
  if (!text) return;
  paint.font = FONT;
  const wide = paint.measureText(text).width, part = 0.5 / lanesCrossed(message);
  const x = arrow.x + (arrow.toX - arrow.x) * part + 5, y = arrow.y + (arrow.toY - arrow.y) * part;
  if (Math.abs(arrow.toY - arrow.y) < 50 || !labels.take(x, y - 7, wide + 4, 14)) return;
  backed(text, x, y, wide, colourOf(message.region));
}

// Text on a ground of its own, so that what runs behind it does not cut it.
function backed(text, x, y, wide, colour, font = FONT) {
  paint.globalAlpha = 0.82;
  paint.fillStyle = colours.paper;
  paint.fillRect(x - 2, y - 7, wide + 4, 14);
  paint.globalAlpha = 1;
  words(text, x, y, colour, font);
}

// Rectangles that hold text already.
class Places {
  constructor() { this.rows = new Map(); }

  take(x, y, width, height) {
    const first = Math.floor(y / 20), last = Math.floor((y + height) / 20);
    for (let row = first; row <= last; row++) {
      for (const known of this.rows.get(row) ?? []) {
        if (x < known.x + known.width && known.x < x + width && y < known.y + known.height && known.y < y + height) return false;
      }
    }
    for (let row = first; row <= last; row++) {
      if (!this.rows.has(row)) this.rows.set(row, []);
      this.rows.get(row).push({ x, y, width, height });
    }
    return true;
  }
}

function clipped(text, most) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

// Commands

function drawCommands() {
  const commands = between("command", view.from, view.to);
  const ends = new Map();
  const crowded = commands.length * LABEL_EVERY > (size.width - LEFT) * shownRegions().length && !filter.find;
  const room = crowded ? 0 : Math.max(0, Math.min(LABELS_MAX, Math.floor((laneHeight() * 0.5 - 14 - CLOCK_HEIGHT) / LABEL)));
  for (const command of commands) {
    const x = xOf(command.at), y = yOfCommand(command), found = filter.find ? matches(command) : true;
    paint.globalAlpha = found ? 1 : 0.2;
    if (found && filter.find) ring(x, y, 6.5, colours.mark, 2.5);
    glyph(paint, command.kind, x, y, colours[command.kind]);
    if (found) labelCommand(command, x, yOf(command.region), room, ends);
    paint.globalAlpha = 1;
  }
}

// In the first row above the lane where it does not run into the label before it.
function labelCommand(command, x, y, room, ends) {
  const text = clipped(`${command.argv} → ${command.reply}`, 64);
  paint.font = FONT;
  const wide = paint.measureText(text).width;
  for (let row = 0; row < room; row++) {
    const name = `${command.region}/${row}`;
    if (x <= (ends.get(name) ?? -Infinity)) continue;
    ends.set(name, x + wide + 14);
    const above = y - 15 - row * LABEL;
    line(x, y - 5, x, above + 6, colours.lane, 0.6);
    backed(text, x - 2, above, wide, colours[command.kind] || colours.ink);
    return;
  }
}

function glyph(context, kind, x, y, colour) {
  context.fillStyle = colour;
  context.strokeStyle = colour;
  context.lineWidth = 2;
  context.beginPath();
  if (kind === "add") context.arc(x, y, 4, 0, 7);
  else if (kind === "group") context.rect(x - 4, y - 4, 8, 8);
  else if (kind === "ack") { context.moveTo(x, y - 5); context.lineTo(x + 5, y); context.lineTo(x, y + 5); context.lineTo(x - 5, y); }
  else if (kind === "error") { context.moveTo(x, y - 6); context.lineTo(x + 5.5, y + 4); context.lineTo(x - 5.5, y + 4); }
  else if (kind === "remove") return cross(x, y, colour, 4, context);
  else { context.arc(x, y, 3, 0, 7); context.fillStyle = colours.paper; context.fill(); context.lineWidth = 1.5; return context.stroke(); }
  context.fill();
}

function cross(x, y, colour, reach, context = paint) {
  context.strokeStyle = colour;
  context.lineWidth = 2;
  context.beginPath();
  context.moveTo(x - reach, y - reach);
  context.lineTo(x + reach, y + reach);
  context.moveTo(x + reach, y - reach);
  context.lineTo(x - reach, y + reach);
  context.stroke();
}

function ring(x, y, radius, colour, width) {
  paint.strokeStyle = colour;
  paint.lineWidth = width;
  paint.beginPath();
  paint.arc(x, y, radius, 0, 7);
  paint.stroke();
}

// The violation and the selection

function drawViolation() {
  if (!run.violation) return;
  const { at, checker, region } = run.violation, x = xOf(at), base = size.height - AXIS;
  paint.globalAlpha = 0.13;
  paint.fillStyle = colours.bad;
  paint.fillRect(x, FLAG, size.width - x, base - FLAG);
  paint.globalAlpha = 1;
  line(x, 0, x, base, colours.bad, 3);
  const text = `✖ ${checker} is violated${at > view.to ? " →" : at < view.from ? " ←" : ""}`;
  paint.font = `bold ${PLAIN}`;
  const wide = paint.measureText(text).width + 12, left = Math.min(Math.max(LEFT, x - wide), size.width - wide);
  paint.fillStyle = colours.bad;
  paint.fillRect(left, 1, wide, FLAG - 3);
  words(text, left + 6, FLAG / 2, colours.paper, `bold ${PLAIN}`);
  for (const number of region && filter.regions.has(region) ? [region] : shownRegions()) {
    ring(x, yOf(number), 9, colours.bad, 3);
    cross(x, yOf(number), colours.bad, 5);
  }
}

function drawSelected() {
  for (const [event, width] of [[view.hovered, 2], [view.selected, 3]]) {
    if (!event) continue;
    if (event.type === "command" && filter.regions.has(event.region)) ring(xOf(event.at), yOfCommand(event), 9, colours.focus, width);
    else if (event.type === "message" && passes(event)) {
      const arrow = arrowOf(event);
      line(arrow.x, arrow.y, arrow.toX, arrow.toY, colours.focus, width + 1);
      if (!arrow.lost) head(arrow, colours.focus);
    } else if (event.type === "fault") {
      const box = boxOf(event);
      paint.strokeStyle = colours.focus;
      paint.lineWidth = width;
      paint.strokeRect(box.x, box.y, box.width, box.height);
    }
  }
}

// What is here

function eventAt(x, y) {
  const from = timeAt(x - 12), to = timeAt(x + 12);
  let best = null, nearest = 8;
  for (const command of between("command", from, to)) {
    const far = Math.hypot(xOf(command.at) - x, yOfCommand(command) - y);
    if (far < nearest) { nearest = far; best = command; }
  }
  if (best) return best;
  nearest = 6;
  for (const message of between("message", from, to)) {
    const far = distance(arrowOf(message), x, y);
    if (far < nearest) { nearest = far; best = message; }
  }
  if (best) return best;
  return between("fault", from, to).reverse().find(fault => {
    const box = boxOf(fault);
    return x >= box.x - 2 && x <= box.x + box.width + 2 && y >= box.y && y <= box.y + box.height;
  }) ?? null;
}

function distance({ x, y, toX, toY }, px, py) {
  const long = (toX - x) ** 2 + (toY - y) ** 2;
  const part = long ? Math.max(0, Math.min(1, ((px - x) * (toX - x) + (py - y) * (toY - y)) / long)) : 0;
  return Math.hypot(px - x - part * (toX - x), py - y - part * (toY - y));
}

// The overview: how much happens when, faults, and the window

function drawOverview() {
  const context = overview.getContext("2d");
  const { width, height } = fitCanvas(overview, context);
  const whole = bounds.to - bounds.from, place = at => (at - bounds.from) / whole * width;
  const bars = new Array(Math.ceil(width / 4)).fill(0);
  for (const command of byType.command) if (passes(command)) bars[Math.floor(place(command.at) / 4)]++;
  const top = Math.max(1, ...bars);
  for (const fault of byType.fault) {
    if (fault.kind === "closed") continue;
    context.globalAlpha = 0.25;
    context.fillStyle = colours[fault.kind];
    context.fillRect(place(fault.at), 0, Math.max(1, place(fault.until) - place(fault.at)), 7);
  }
  context.globalAlpha = 1;
  context.fillStyle = colours.lane;
  bars.forEach((count, index) => context.fillRect(index * 4, height - count / top * (height - 10), 3, height));
  context.fillStyle = colours.mark;
  if (filter.find) for (const event of events) if (passes(event) && matches(event)) context.fillRect(place(event.at), 8, 1.5, height);
  if (run.violation) { context.fillStyle = colours.bad; context.fillRect(place(run.violation.at) - 1, 0, 3, height); }
  context.globalAlpha = 0.14;
  context.fillStyle = colours.focus;
  context.fillRect(place(view.from), 0, place(view.to) - place(view.from), height);
  context.globalAlpha = 1;
  context.strokeStyle = colours.focus;
  context.lineWidth = 1.5;
  context.strokeRect(place(view.from) + 1, 1, place(view.to) - place(view.from) - 2, height - 2);
}
