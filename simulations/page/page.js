// The page: toolbar, pointer, keyboard, and the panel with details, legend and list.

const LISTED_MAX = 200;
const byId = id => document.getElementById(id);
const tip = byId("tip");

function element(name, text = "", className = "") {
  const made = document.createElement(name);
  made.textContent = text;
  if (className) made.className = className;
  return made;
}

// Head and toolbar

function fillHead() {
  const { commands, messages } = run.statistics;
  const faults = run.faultKinds.join(", ") || "none";
  byId("about").textContent = `${run.settings} · ${commands} commands, ${messages} messages, ${ms(run.end)} · faults: ${faults}`;
  const verdict = byId("verdict"), bad = run.violation;
  verdict.className = bad ? "bad" : "good";
  verdict.textContent = bad ? `✖ ${bad.checker} is violated at ${ms(bad.at)}` : "✔ all invariants hold";
  verdict.disabled = !bad;
  verdict.addEventListener("click", () => { view.selected = null; showViolation(); });
}

function fillTools() {
  const keys = byId("key");
  keys.append(new Option("all", ""), ...keysOfRun.map(key => new Option(key, key)));
  keys.value = filter.key;
  keys.addEventListener("change", () => { filter.key = keys.value; changed(); });
  for (const number of regionsOfRun) addToggle("regions", String(number), filter.regions, number);
  for (const [kind, name] of SHOWN) addToggle("kinds", name, filter.kinds, kind);
  const find = byId("find");
  find.value = filter.find;
  find.addEventListener("input", () => { filter.find = find.value.trim().toLowerCase(); countFound(); changed(); });
  find.addEventListener("keydown", pressed => {
    if (pressed.key === "Enter") { step(!pressed.shiftKey, matches); pressed.preventDefault(); }
    if (pressed.key === "Escape") diagram.focus();
  });
  byId("in").addEventListener("click", () => zoom(1.6));
  byId("out").addEventListener("click", () => zoom(1 / 1.6));
  byId("fit").addEventListener("click", fit);
}

function addToggle(place, name, set, value) {
  const label = element("label"), box = element("input");
  box.type = "checkbox";
  box.checked = set.has(value);
  box.addEventListener("change", () => { if (box.checked) set.add(value); else set.delete(value); changed(); });
  label.append(box, name);
  byId(place).append(label);
}

function countFound() {
  const count = filter.find ? events.filter(event => passes(event) && matches(event)).length : 0;
  byId("found").textContent = filter.find ? `${count} found` : "";
}

// The panel

function describe(event) {
  const head = element("p", title(event), "what"), rows = element("dl");
  for (const [name, text] of details(event)) rows.append(element("dt", name), element("dd", text));
  return [head, rows];
}

function describeViolation() {
  const { at, checker, text } = run.violation;
  const head = element("p", `✖ ${checker} is violated`, "what"), rows = element("dl");
  head.style.color = "var(--bad)";
  rows.append(element("dt", "time"), element("dd", ms(at)), element("dt", "seen"), element("dd", text));
  return [head, rows];
}

let described = "";
function fillDetail() {
  const name = view.selected ? String(view.selected.id) : "none";
  if (name === described) return;
  described = name;
  if (view.selected) byId("detail").replaceChildren(...describe(view.selected));
  else if (run.violation) byId("detail").replaceChildren(...describeViolation());
  else byId("detail").replaceChildren(element("p", "Select an event to see its reply, vector and state.", ""));
}

function fillList() {
  const found = [...between("fault", view.from, view.to).filter(fault => fault.kind !== "closed"),
    ...between("command", view.from, view.to), ...between("message", view.from, view.to)]
    .filter(event => !filter.find || matches(event)).sort((a, b) => a.id - b.id);
  byId("listed").textContent = `Events in view: ${found.length}`
    + (found.length > LISTED_MAX ? `, the first ${LISTED_MAX} listed` : "");
  byId("list").replaceChildren(...found.slice(0, LISTED_MAX).map(listed));
}

function listed(event) {
  const item = element("li"), button = element("button"), swatch = element("span", "", "swatch");
  button.type = "button";
  button.setAttribute("aria-current", String(event === view.selected));
  swatch.style.background = event.type === "message" ? colourOf(event.region) : colours[event.kind] || colours.lane;
  button.append(element("span", `${event.at} `, "time"), swatch, title(event));
  button.addEventListener("click", () => show(event));
  item.append(button);
  return item;
}

function fillLegend() {
  const rows = [["add", "XADD"], ["remove", "XDEL, XTRIM, DEL"], ["group", "XGROUP"], ["ack", "XACK, XCLAIM"],
    ["read", "read"], ["error", "error reply"]].map(([kind, text]) => [text, context => glyph(context, kind, 15, 8, colours[kind])]);
  rows.push(["data", context => arrowSample(context, [], false)], ["control, progress", context => arrowSample(context, [3, 3], false)]);
  rows.push(["never arrived", context => arrowSample(context, [], true)]);
  for (const [kind, text] of [["kill", "killed"], ["power", "power or write lost"], ["disk-loss", "disk lost, rotten"], ["birth", "not serving"],
    ["pause", "paused"], ["disk-full", "disk full"], ["clock", "clock off"], ["cut", "link cut"], ["clog", "link clogged"],
    ["slow", "link slow"]]) {
    rows.push([text, context => hatch(context, { x: 0, y: 0, width: 30, height: 16 }, kind, colours[kind])]);
  }
  byId("legend").replaceChildren(...rows.map(([text, sample]) => {
    const entry = element("span"), canvas = element("canvas"), ratio = devicePixelRatio || 1;
    canvas.width = 30 * ratio;
    canvas.height = 16 * ratio;
    const context = canvas.getContext("2d");
    context.scale(ratio, ratio);
    sample(context);
    entry.append(canvas, text);
    return entry;
  }));
}

function arrowSample(context, dash, lost) {
  context.strokeStyle = colours.r1;
  context.lineWidth = 1.5;
  context.setLineDash(dash);
  context.beginPath();
  context.moveTo(1, 3);
  context.lineTo(25, 13);
  context.stroke();
  context.setLineDash([]);
  if (lost) cross(25, 12, colours.bad, 3.5, context);
}

// The pointer

let grabbed = null;

function hover(x, y) {
  const event = x < LEFT ? null : eventAt(x, y);
  if (event !== view.hovered) { view.hovered = event; changed(); }
  tip.hidden = !event;
  if (!event) return;
  tip.replaceChildren(...describe(event));
  const stage = byId("stage").getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(x + 14, stage.width - tip.offsetWidth - 6))}px`;
  const below = y + 16;
  tip.style.top = `${below + tip.offsetHeight < stage.height ? below : Math.max(4, y - tip.offsetHeight - 12)}px`;
}

function listenToPointer() {
  diagram.addEventListener("wheel", turned => {
    turned.preventDefault();
    const sideways = turned.shiftKey || Math.abs(turned.deltaX) > Math.abs(turned.deltaY);
    if (sideways) pan((turned.deltaX || turned.deltaY) / size.width);
    else zoom(Math.exp(-turned.deltaY * 0.0018), timeAt(turned.offsetX));
  }, { passive: false });
  diagram.addEventListener("pointerdown", pressed => {
    grabbed = { x: pressed.offsetX, from: view.from, to: view.to, moved: false };
    diagram.setPointerCapture(pressed.pointerId);
  });
  diagram.addEventListener("pointermove", moved => {
    if (!grabbed) { hover(moved.offsetX, moved.offsetY); return; }
    const far = moved.offsetX - grabbed.x;
    grabbed.moved ||= Math.abs(far) > 3;
    if (!grabbed.moved) return;
    const by = -far / (size.width - LEFT) * (grabbed.to - grabbed.from);
    look(grabbed.from + by, grabbed.to + by);
  });
  diagram.addEventListener("pointerup", released => {
    if (grabbed && !grabbed.moved) show(eventAt(released.offsetX, released.offsetY));
    grabbed = null;
  });
  diagram.addEventListener("pointerleave", () => { view.hovered = null; tip.hidden = true; changed(); });
  for (const name of ["pointerdown", "pointermove"]) overview.addEventListener(name, dragged => {
    if (!dragged.buttons) return;
    const at = bounds.from + dragged.offsetX / overview.clientWidth * (bounds.to - bounds.from);
    look(at - span() / 2, at + span() / 2);
  });
}

// The keyboard

const KEYS = {
  "+": () => zoom(1.6), "=": () => zoom(1.6), "-": () => zoom(1 / 1.6), "0": fit, v: () => { view.selected = null; showViolation(); },
  n: () => step(true, matches), p: () => step(false, matches), "/": () => byId("find").focus(), Escape: () => show(null),
  ArrowUp: () => stepRegion(-1), ArrowDown: () => stepRegion(1), Home: () => look(0, span()), End: () => look(end - span(), end),
};

// The nearest command in the lane above or below.
function stepRegion(by) {
  const lanes = shownRegions(), at = view.selected ? view.selected.at : (view.from + view.to) / 2;
  const now = view.selected ? lanes.indexOf(view.selected.region) : by > 0 ? -1 : lanes.length;
  const region = lanes[Math.max(0, Math.min(lanes.length - 1, now + by))];
  const near = byType.command.filter(event => event.region === region && passes(event));
  if (near.length) show(near.reduce((best, event) => Math.abs(event.at - at) < Math.abs(best.at - at) ? event : best));
}

function listenToKeys() {
  diagram.addEventListener("keydown", pressed => {
    const sideways = { ArrowLeft: -1, ArrowRight: 1 }[pressed.key];
    if (sideways && pressed.shiftKey) pan(0.2 * sideways);
    else if (sideways) step(sideways > 0, event => event.kind !== "closed");
    else if (KEYS[pressed.key] && !pressed.ctrlKey && !pressed.metaKey) KEYS[pressed.key]();
    else return;
    pressed.preventDefault();
  });
}

// Begin

function started() {
  readColours();
  readAddress();
  fillHead();
  fillTools();
  fillLegend();
  countFound();
  listenToPointer();
  listenToKeys();
  onChange(draw);
  onChange(drawOverview);
  onChange(fillDetail);
  onChange(fillList);
  onChange(writeAddress);
  new ResizeObserver(changed).observe(byId("stage"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readColours(); fillLegend(); changed(); });
  changed();
}

started();
