// The view: which stretch of time is seen, what is selected and hovered; the address keeps it, so a view can be sent.
//
// `from` and `to` are virtual milliseconds; the address writes them as `zoom` (times the fitting one) and `at` (middle).

const MARGIN = 0.03;
const SPAN_MIN = 4;
const bounds = { from: -end * MARGIN, to: end * (1 + MARGIN) };
const view = { from: bounds.from, to: bounds.to, selected: null, hovered: null };
const waiting = [];
let planned = false;

function onChange(action) {
  waiting.push(action);
}

// Everything that changes the view ends here; one picture for each frame.
function changed() {
  if (planned) return;
  planned = true;
  requestAnimationFrame(() => { planned = false; for (const action of waiting) action(); });
}

function span() {
  return view.to - view.from;
}

function look(from, to) {
  const whole = bounds.to - bounds.from;
  const wanted = Math.min(whole, Math.max(SPAN_MIN, to - from));
  const middle = (from + to) / 2;
  view.from = Math.min(Math.max(middle - wanted / 2, bounds.from), bounds.to - wanted);
  view.to = view.from + wanted;
  changed();
}

// Zoom by a factor; the moment `at` keeps its place.
function zoom(factor, at = (view.from + view.to) / 2) {
  look(at - (at - view.from) / factor, at + (view.to - at) / factor);
}

function pan(part) {
  look(view.from + span() * part, view.to + span() * part);
}

function fit() {
  look(bounds.from, bounds.to);
}

function show(event) {
  view.selected = event;
  if (event && (event.at < view.from || event.last > view.to)) {
    const middle = (event.at + event.last) / 2;
    const wide = Math.max(span(), (event.last - event.at) * 1.4);
    look(middle - wide / 2, middle + wide / 2);
  }
  changed();
}

function showViolation() {
  if (!run.violation) return;
  const wide = Math.min(span(), Math.max(end / 8, 200));
  look(run.violation.at - wide * 0.85, run.violation.at + wide * 0.15);
}

// The next event that the filters let through, from the selected one or from the middle of the view.
function step(forward, wanted) {
  const middle = (view.from + view.to) / 2;
  const ordered = forward ? events : events.slice().reverse();
  const start = view.selected;
  const after = event => start ? (forward ? event.id > start.id : event.id < start.id)
    : (forward ? event.at >= middle : event.at <= middle);
  const found = ordered.find(event => after(event) && passes(event) && wanted(event));
  if (found) show(found);
  return found;
}

// The address

function readAddress() {
  const words = new URLSearchParams(location.hash.slice(1));
  if (words.has("key")) filter.key = words.get("key");
  if (words.has("region")) filter.regions = new Set(words.get("region").split(",").map(Number));
  if (words.has("show")) filter.kinds = new Set(words.get("show").split(","));
  if (words.has("find")) filter.find = words.get("find").toLowerCase();
  if (words.has("select")) view.selected = events[Number(words.get("select"))] ?? null;
  const whole = bounds.to - bounds.from;
  const wide = whole / Math.max(1, Number(words.get("zoom") ?? 1) || 1);
  const first = run.violation ? run.violation.at : end / 2;
  const middle = words.has("at") ? Number(words.get("at")) : view.selected ? view.selected.at : first;
  look(middle - wide / 2, middle + wide / 2);
}

function writeAddress() {
  const words = new URLSearchParams();
  if (filter.key) words.set("key", filter.key);
  if (filter.regions.size < regionsOfRun.length) words.set("region", [...filter.regions].join(","));
  words.set("show", [...filter.kinds].join(","));
  if (filter.find) words.set("find", filter.find);
  if (view.selected) words.set("select", view.selected.id);
  words.set("zoom", ((bounds.to - bounds.from) / span()).toFixed(2));
  words.set("at", Math.round((view.from + view.to) / 2));
  history.replaceState(null, "", `#${words}`);
}
