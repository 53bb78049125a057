// The run: its events in order of time, and which of them the filters let through.
//
// An event is a command (`argv`), a message (`parts`) or a fault (`until`); `id` is its place in `events`.

const run = JSON.parse(document.getElementById("run").textContent);

const TYPES = [
  ["commands", "command", row => row.at],
  ["messages", "message", row => row.arrived ?? row.at],
  ["faults", "fault", row => row.until],
];

const events = TYPES.flatMap(([name, type, last]) =>
  run[name].map(row => ({ ...row, type, last: last(row) })));
events.sort((a, b) => a.at - b.at || a.last - b.last);
events.forEach((event, id) => { event.id = id; event.words = wordsOf(event).toLowerCase(); });

// How long before a moment an event that reaches it may begin; so a window is found by one binary search.
const longest = { command: 0, message: 0, fault: 0 };
for (const event of events) longest[event.type] = Math.max(longest[event.type], event.last - event.at);
const byType = Object.fromEntries(TYPES.map(([, type]) => [type, events.filter(event => event.type === type)]));

// Commands of one moment stand below each other: `order` is the place in such a pile.
const piles = new Map();
for (const event of byType.command) {
  const name = `${event.region} ${event.at}`;
  event.order = piles.get(name) ?? 0;
  piles.set(name, event.order + 1);
}

const keysOfRun = [...new Set(events.flatMap(event => event.keys ?? []))].sort();
const regionsOfRun = run.regions.map(region => region.number);
const end = Math.max(run.end, 1);

function wordsOf(event) {
  if (event.type === "command") return `${event.region}> ${event.argv} ${event.reply} ${event.vector}`;
  if (event.type === "message") return `${event.region} -> ${event.to} ${event.parts.join(" ")}`;
  return `${event.kind} ${event.text}`;
}

// What the toolbar can hide. Faults are always shown: they explain the rest.
const SHOWN = [
  ["add", "adds"], ["remove", "removals"], ["group", "groups"], ["ack", "acks"], ["read", "reads"], ["error", "errors"],
  ["data", "data"], ["control", "control"], ["progress", "progress"],
];

const filter = { key: "", regions: new Set(regionsOfRun), kinds: new Set(SHOWN.map(([kind]) => kind)), find: "" };
filter.kinds.delete("progress");

function passes(event) {
  if (event.type === "fault") return filter.regions.has(event.region) || filter.regions.has(event.to);
  if (!filter.kinds.has(event.kind)) return false;
  if (event.type === "message") {
    if (!filter.regions.has(event.region) || !filter.regions.has(event.to)) return false;
  } else if (!filter.regions.has(event.region)) return false;
  return !filter.key || event.keys.includes(filter.key);
}

function matches(event) {
  return filter.find !== "" && event.words.includes(filter.find);
}

// Events of one type that touch [from, to], both inclusive.
function between(type, from, to) {
  const rows = byType[type];
  let low = 0, high = rows.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (rows[middle].at < from - longest[type]) low = middle + 1; else high = middle;
  }
  const found = [];
  for (let at = low; at < rows.length && rows[at].at <= to; at++) {
    if (rows[at].last >= from && passes(rows[at])) found.push(rows[at]);
  }
  return found;
}

function title(event) {
  if (event.type === "command") return `${event.region}> ${event.argv}`;
  if (event.type === "fault") return event.text;
  const again = event.again ? " again" : "";
  return `${event.region} → ${event.to}${again}: ${event.parts.map(brief).join(", ") || "nothing"}`;
}

// A batch without its context, another part by its name.
function brief(part) {
  return /^\d+:/.test(part) ? part.replace(/ \(saw [^)]*\)$/, "") : part.split(":")[0];
}

function details(event) {
  const rows = [["time", `${ms(event.at)}${event.last > event.at ? " to " + ms(event.last) : ""}`]];
  if (event.type === "command") {
    rows.push(["region", String(event.region)], ["command", event.argv], ["reply", event.reply], ["vector", event.vector]);
    if (event.state) rows.push([`key ${event.keys[0]}`, event.state]);
  } else if (event.type === "message") {
    rows.push(["way", event.arrived === null ? "never arrived" : `${event.arrived - event.at} ms on the way`]);
    rows.push(["size", `${event.bytes} bytes, connection ${event.link}`]);
    event.parts.forEach((part, index) => rows.push([index ? "" : "carries", part]));
    if (event.vector) rows.push([`${event.to} then has`, event.vector]);
  } else {
    rows.push(["lasts", `${(event.until - event.at).toLocaleString("en")} ms`]);
  }
  return rows;
}

function ms(value) {
  return `${(Math.round(value) + 0).toLocaleString("en")} ms`;
}
