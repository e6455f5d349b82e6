// The state of the machine: one value, filled by the stream and by a few requests, from which every
// view is drawn. A moment of the past is the same value with other numbers.
import { useEffect, useLayoutEffect, useReducer, useState } from "preact/hooks";
import { ask, has_token } from "./api.js";
import { follow } from "./event_stream.js";
import { dash, number, sum_of } from "./format.js";
import { is_watching, look_at, look_at_waiting } from "./notify.js";

const kEvents = 50; // stored for the list
const kPoints = 60; // of a small line: a minute
const kLate = 5000; // ms without new columns, after which the data are stale
const kTogether = 200; // ms; changes within this time cause one request
const kDayEvery = 300000;
const kNoticeable = 0.01; // GPU-hours with unknown energy
const kLeasesEvery = 60000; // no event reports a process without a lease

export const yard = {
  link: "starting", // starting | live | away | refused
  why: "",
  t: 0, // of the newest values, ms, by the daemon's clock
  heard: 0, // when they came, by ours
  simulated: document.body.dataset.simulated === "true",
  driver_error: null,
  devices: [], // as in the resync, with the newest values
  lines: new Map(), // UUID -> the last minute's utilisation
  events: [],
  leases: [],
  queue: null,
  alerts: null,
  today: null,
};

const watchers = new Set();
let drawing = 0;
function changed() {
  drawing ||= requestAnimationFrame(() => {
    drawing = 0;
    for (const watcher of watchers) watcher();
  });
}

// Draws the component again whenever the yard has changed.
export function useYard() {
  const [, redraw] = useReducer((turn) => turn + 1, 0);
  // An effect would start after the next frame, and miss earlier changes.
  useLayoutEffect(() => {
    watchers.add(redraw);
    return () => watchers.delete(redraw);
  }, []);
  return yard;
}

// The answer of a route: {data, error}. It is requested again when `key` changes, and every `every` ms
// while the tab is visible. A refused request is not repeated until the token changes.
export function useAnswer(path, parameters, every = 0) {
  const key = JSON.stringify([path, parameters, has_token()]);
  const [answer, set] = useState({ key: "", data: null, error: null });
  useEffect(() => {
    let wanted = true;
    let busy = false; // a slow daemon gets one request at a time
    let timer = 0;
    const load = async () => {
      if (document.hidden || busy || !path) return;
      busy = true;
      try {
        const data = await ask(path, parameters);
        if (wanted) set({ key, data, error: null });
      } catch (error) {
        if (wanted) set({ key, data: null, error });
        if (error.status === 401 || error.status === 403) clearInterval(timer);
      }
      busy = false;
    };
    timer = every && setInterval(load, every);
    load();
    return () => {
      wanted = false;
      clearInterval(timer);
    };
  }, [key, every]);
  return answer.key === key ? answer : { data: null, error: null };
}

let columns = [];

function put_columns({ t_ms, v }) {
  yard.devices.forEach((device, place) => {
    columns.forEach((column, at) => (device[column] = v[at][place]));
    const mib = device.memory_used_mib;
    device.memory_used_bytes = mib === null ? null : mib * 2 ** 20;
    const line = yard.lines.get(device.uuid);
    line.push(device.utilization_gpu_percent);
    if (line.length > kPoints) line.shift();
  });
  yard.t = t_ms;
  yard.heard = Date.now();
}

// The minute before the page was opened, and one that was missed.
async function fill_lines() {
  const { series } = await ask("/api/gpu/history", { metrics: "utilization_gpu", since: "1m", points: kPoints });
  for (const { uuid, mean } of series) if (yard.lines.has(uuid)) yard.lines.set(uuid, mean.slice(-kPoints));
  changed();
}

function resync(state) {
  columns = state.columns;
  yard.devices = state.devices;
  yard.driver_error = state.driver_initialised ? null : state.driver_error;
  yard.simulated = state.simulated;
  yard.t = state.t_ms;
  yard.heard = Date.now();
  for (const { uuid } of state.devices) if (!yard.lines.has(uuid)) yard.lines.set(uuid, []);
}

const waiting = new Map();
function soon(name, load) {
  if (waiting.has(name)) return;
  waiting.set(
    name,
    setTimeout(() => {
      waiting.delete(name);
      load().then(changed, () => {}); // the next change requests it again
    }, kTogether),
  );
}
export const learn_leases = () =>
  soon("leases", async () => {
    const [leases, queue] = await Promise.all([ask("/api/gpu/leases"), ask("/api/gpu/queue")]);
    yard.leases = leases.leases;
    yard.queue = queue;
    look_at_waiting(queue.waiting);
  });
const learn_alerts = () => soon("alerts", async () => (yard.alerts = await ask("/api/gpu/alerts")));
const learn_today = () =>
  soon("today", async () => {
    const { rows, unleased } = await ask("/api/gpu/usage", { since_s: 0, by: "day" });
    const all = [...rows, unleased];
    const priced = all.map(({ estimate }) => estimate).filter((estimate) => estimate && estimate.cost !== null);
    yard.today = {
      kwh: energy_of(all),
      estimate: priced.length
        ? { cost: priced.reduce((total, { cost }) => total + cost, 0), currency: priced[0].currency }
        : null,
    };
  });

// "31.2 kWh", "31.2+ kWh" if the energy of some time is unknown, a dash if all is.
function energy_of(rows) {
  const whole = rows.every((row) => row.energy_unknown_gpu_hours < kNoticeable);
  const kwh = sum_of(rows.map((row) => row.energy_kwh).filter((value) => value !== null), (value) => number(value, 1));
  return kwh === dash ? kwh : `${kwh}${whole ? "" : "+"} kWh`;
}

function note(at, level, text) {
  yard.events.unshift({ at: Date.parse(at) || Date.now(), level, text });
  yard.events.length = Math.min(yard.events.length, kEvents);
}

let missed = true; // whether the small lines have a gap
const kTake = {
  resync(state) {
    resync(state);
    learn_leases();
    learn_alerts();
    learn_today();
  },
  columns: put_columns,
  bottleneck({ at, device, index, bottleneck }) {
    const found = yard.devices.find(({ uuid }) => uuid === device);
    if (!found) return;
    found.bottleneck = bottleneck.cause;
    found.bottleneck_brief = bottleneck.brief;
    found.bottleneck_text = bottleneck.text;
    found.bottleneck_advice = bottleneck.advice;
    if (bottleneck.cause !== "none") note(at, "note", `GPU ${index} ${bottleneck.text}`);
  },
  device({ at, index, severity, text }) {
    note(at, severity, index === null ? text : `GPU ${index}: ${text}`);
  },
  lease(lease) {
    look_at(lease);
    learn_leases();
  },
  load: learn_leases,
  operation() {},
  alert({ alert }) {
    if (alert) note(alert.resolved ?? alert.fired, alert.resolved ? "note" : "warn", alert.message);
    learn_alerts();
  },
};

function take(name, data) {
  if (name === "away" || name === "refused") {
    yard.link = name;
    yard.why = data;
    missed = true;
  } else {
    kTake[name]?.(data);
    yard.link = "live";
    if (missed) {
      missed = false;
      soon("lines", fill_lines);
    }
  }
  changed();
}

export function start() {
  follow(take, is_watching);
  const regularly = (learn, every) => setInterval(() => !document.hidden && yard.link === "live" && learn(), every);
  regularly(learn_today, kDayEvery);
  regularly(learn_leases, kLeasesEvery);
  // A stream that hangs causes no event: check the clock.
  setInterval(() => yard.link === "live" && is_late() && changed(), kLate);
}

export const is_late = () => yard.heard > 0 && Date.now() - yard.heard > kLate;
export const holder_of = (uuid) =>
  yard.leases.find(({ state, gpus }) => state !== "waiting" && gpus.some((gpu) => gpu.uuid === uuid));
