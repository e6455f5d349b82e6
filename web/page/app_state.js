// The state of the machine: one value, filled by the stream and by a few requests, from which every
// view is drawn. A moment of the past is the same value with other numbers.
import { useEffect, useLayoutEffect, useReducer, useState } from "preact/hooks";
import { fetch_json, has_token } from "./api.js";
import { follow_events } from "./event_stream.js";
import { dash, number, sum_of } from "./format.js";
import { check_lease, check_waiting_leases, has_subscriptions } from "./notify.js";

const kMaxEvents = 50; // stored for the list
const kPoints = 60; // of a small line: a minute
const kStaleAfter = 5000; // ms without new columns
const kLoadDelay = 200; // ms; changes within this time cause one request
const kTodayInterval = 300000;
const kNoticeable = 0.01; // GPU-hours with unknown energy
const kLeasesInterval = 60000; // no event reports a process without a lease

export const app_state = {
  link: "starting", // starting | live | away | refused
  why: "",
  t: 0, // of the newest values, ms, by the daemon's clock
  received_at: 0, // when they came, by ours
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

const subscribers = new Set();
let next_frame = 0;
function schedule_redraw() {
  next_frame ||= requestAnimationFrame(() => {
    next_frame = 0;
    for (const redraw of subscribers) redraw();
  });
}

// Draws the component again whenever the state has changed.
export function useAppState() {
  const [, redraw] = useReducer((turn) => turn + 1, 0);
  // An effect would start after the next frame, and miss earlier changes.
  useLayoutEffect(() => {
    subscribers.add(redraw);
    return () => subscribers.delete(redraw);
  }, []);
  return app_state;
}

// The result of a query: {data, error}. It is requested again when `key` changes, and every `interval_ms`
// while the tab is visible. A refused request is not repeated until the token changes.
export function useQuery(path, parameters, interval_ms = 0) {
  const key = JSON.stringify([path, parameters, has_token()]);
  const [result, set] = useState({ key: "", data: null, error: null });
  useEffect(() => {
    let current = true;
    let busy = false; // a slow daemon gets one request at a time
    let timer = 0;
    const load = async () => {
      if (document.hidden || busy || !path) return;
      busy = true;
      try {
        const data = await fetch_json(path, parameters);
        if (current) set({ key, data, error: null });
      } catch (error) {
        if (current) set({ key, data: null, error });
        if (error.status === 401 || error.status === 403) clearInterval(timer);
      }
      busy = false;
    };
    timer = interval_ms && setInterval(load, interval_ms);
    load();
    return () => {
      current = false;
      clearInterval(timer);
    };
  }, [key, interval_ms]);
  return result.key === key ? result : { data: null, error: null };
}

let columns = [];

function update_columns({ t_ms, v }) {
  app_state.devices.forEach((device, index) => {
    columns.forEach((column, at) => (device[column] = v[at][index]));
    const mib = device.memory_used_mib;
    device.memory_used_bytes = mib === null ? null : mib * 2 ** 20;
    const line = app_state.lines.get(device.uuid);
    line.push(device.utilization_gpu_percent);
    if (line.length > kPoints) line.shift();
  });
  app_state.t = t_ms;
  app_state.received_at = Date.now();
}

// The minute before the page was opened, and one that was missed.
async function fill_lines() {
  const { series } = await fetch_json("/api/gpu/history", { metrics: "utilization_gpu", since: "1m", points: kPoints });
  for (const { uuid, mean } of series) if (app_state.lines.has(uuid)) app_state.lines.set(uuid, mean.slice(-kPoints));
  schedule_redraw();
}

function resync(state) {
  columns = state.columns;
  app_state.devices = state.devices;
  app_state.driver_error = state.driver_initialised ? null : state.driver_error;
  app_state.simulated = state.simulated;
  app_state.t = state.t_ms;
  app_state.received_at = Date.now();
  for (const { uuid } of state.devices) if (!app_state.lines.has(uuid)) app_state.lines.set(uuid, []);
}

const load_timers = new Map();
function schedule_load(name, load) {
  if (load_timers.has(name)) return;
  load_timers.set(
    name,
    setTimeout(() => {
      load_timers.delete(name);
      load().then(schedule_redraw, () => {}); // the next change requests it again
    }, kLoadDelay),
  );
}
export const load_leases = () =>
  schedule_load("leases", async () => {
    const [leases, queue] = await Promise.all([fetch_json("/api/gpu/leases"), fetch_json("/api/gpu/queue")]);
    app_state.leases = leases.leases;
    app_state.queue = queue;
    check_waiting_leases(queue.waiting);
  });
const load_alerts = () => schedule_load("alerts", async () => (app_state.alerts = await fetch_json("/api/gpu/alerts")));
const load_today = () =>
  schedule_load("today", async () => {
    const { rows, unleased } = await fetch_json("/api/gpu/usage", { since_s: 0, by: "day" });
    const all = [...rows, unleased];
    const priced = all.map(({ estimate }) => estimate).filter((estimate) => estimate && estimate.cost !== null);
    app_state.today = {
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

function record_event(at, level, text) {
  app_state.events.unshift({ at: Date.parse(at) || Date.now(), level, text });
  app_state.events.length = Math.min(app_state.events.length, kMaxEvents);
}

let has_gap = true; // whether the small lines have one
const kEventHandlers = {
  resync(state) {
    resync(state);
    load_leases();
    load_alerts();
    load_today();
  },
  columns: update_columns,
  bottleneck({ at, device, index, bottleneck }) {
    const found = app_state.devices.find(({ uuid }) => uuid === device);
    if (!found) return;
    found.bottleneck = bottleneck.cause;
    found.bottleneck_brief = bottleneck.brief;
    found.bottleneck_text = bottleneck.text;
    found.bottleneck_advice = bottleneck.advice;
    if (bottleneck.cause !== "none") record_event(at, "note", `GPU ${index} ${bottleneck.text}`);
  },
  device({ at, index, severity, text }) {
    record_event(at, severity, index === null ? text : `GPU ${index}: ${text}`);
  },
  lease(lease) {
    check_lease(lease);
    load_leases();
  },
  load: load_leases,
  operation() {},
  alert({ alert }) {
    if (alert) record_event(alert.resolved ?? alert.fired, alert.resolved ? "note" : "warn", alert.message);
    load_alerts();
  },
};

function on_event(name, data) {
  if (name === "away" || name === "refused") {
    app_state.link = name;
    app_state.why = data;
    has_gap = true;
  } else {
    kEventHandlers[name]?.(data);
    app_state.link = "live";
    if (has_gap) {
      has_gap = false;
      schedule_load("lines", fill_lines);
    }
  }
  schedule_redraw();
}

export function start() {
  follow_events(on_event, has_subscriptions);
  const repeat = (load, interval_ms) => setInterval(() => !document.hidden && app_state.link === "live" && load(), interval_ms);
  repeat(load_today, kTodayInterval);
  repeat(load_leases, kLeasesInterval);
  // A stream that hangs causes no event: check the clock.
  setInterval(() => app_state.link === "live" && is_stale() && schedule_redraw(), kStaleAfter);
}

export const is_stale = () => app_state.received_at > 0 && Date.now() - app_state.received_at > kStaleAfter;
export const lease_of = (uuid) =>
  app_state.leases.find(({ state, gpus }) => state !== "waiting" && gpus.some((gpu) => gpu.uuid === uuid));
