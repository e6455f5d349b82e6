// The event stream, one for all tabs of this browser: the tab that holds a lock reads it and passes
// each event to the others. A tab that is hidden for a while releases the lock. If all are hidden,
// nothing is read, except events without samples by a tab that waits for one. A browser without locks
// (plain HTTP from another machine) has one stream per tab.
import { authorisation, channel_of, name_of, subscribe_to_token } from "./api.js";

const kUrl = "/api/gpu/events?samples=columns";
const kBackgroundUrl = "/api/gpu/events?samples=none";
const kHiddenGrace = 5000; // ms
const kMinRetryDelay = 500;
const kMaxRetryDelay = 10000;

// Yields {id, name, data} for each event of a body.
async function* events_of(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const event = { id: "", name: "message", data: "" };
      for (const line of block.split("\n")) {
        if (line.startsWith("id: ")) event.id = line.slice(4);
        else if (line.startsWith("event: ")) event.name = line.slice(7);
        else if (line.startsWith("data: ")) event.data += line.slice(6);
      }
      if (event.data) yield { ...event, data: JSON.parse(event.data) };
    }
  }
}

const pause = (ms, signal) =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => (clearTimeout(timer), resolve(null)), { once: true });
  });

// Calls on_event(name, data) with each event, with "away" and the reason while there is no stream, and
// with "refused" if a token is needed. `needs_events()`: whether this tab needs events while it is hidden.
export function follow_events(on_event, needs_events) {
  const channel = channel_of("events");
  let running = null; // an AbortController: ends the wait for the lock, and the stream
  let leading = false;
  let hide_timer = 0;
  let in_background = false; // the stream is that of a hidden tab
  let last_id = "";
  let last_state = {}; // the last resync and columns, for a tab that comes later

  function accept(event) {
    if (event.id) last_id = event.id;
    if (event.name === "resync") last_state = { resync: event };
    if (event.name === "columns") last_state.columns = event;
    on_event(event.name, event.data);
  }
  function publish(event) {
    channel?.postMessage(event);
    accept(event);
  }
  channel?.addEventListener("message", ({ data: event }) => {
    if (event.name !== "hello") return accept(event);
    if (!leading || !last_state.resync) return;
    channel.postMessage({ ...last_state.resync, id: last_id });
    if (last_state.columns) channel.postMessage(last_state.columns);
  });

  // For a hidden tab. A resync of this stream has other fields, so the changes are requested, and all
  // the rest when the tab is visible again.
  function accept_in_background(event) {
    if (event.name !== "resync") return accept(event);
    last_id = event.id;
    last_state = {};
    on_event("load", null);
  }

  async function read_stream(signal, url = kUrl, deliver = publish) {
    let retry_delay = kMinRetryDelay;
    while (!signal.aborted) {
      let reason = "the daemon closed the stream";
      try {
        const headers = authorisation();
        if (last_state.resync && last_id) headers["Last-Event-ID"] = last_id;
        const reply = await fetch(url, { headers, signal });
        if (reply.status === 401 || reply.status === 403) {
          deliver({ name: "refused", data: (await reply.json()).error.message });
          return;
        }
        if (!reply.ok) throw new Error(`the daemon responded with status ${reply.status}`);
        retry_delay = kMinRetryDelay;
        for await (const event of events_of(reply.body)) deliver(event);
      } catch (error) {
        reason = error.message;
      }
      if (signal.aborted) return;
      deliver({ name: "away", data: reason });
      await pause(retry_delay, signal);
      retry_delay = Math.min(retry_delay * 2, kMaxRetryDelay);
    }
  }

  function start_reading() {
    running = new AbortController();
    const { signal } = running;
    if (!navigator.locks || !channel) return read_stream(signal);
    channel.postMessage({ name: "hello" });
    return navigator.locks
      .request(name_of("events"), { signal }, async () => {
        leading = true;
        await read_stream(signal);
        leading = false;
      })
      .catch(() => {}); // aborted before the lock was granted
  }
  function stop_reading() {
    running?.abort();
    running = null;
    leading = false;
    in_background = false;
  }
  // The lock is for visible tabs.
  function read_in_background() {
    stop_reading();
    on_event("away", "paused in a background tab");
    if (!needs_events()) return;
    in_background = true;
    running = new AbortController();
    read_stream(running.signal, kBackgroundUrl, accept_in_background);
  }
  function on_visibility_change() {
    clearTimeout(hide_timer);
    if (document.hidden) {
      hide_timer = setTimeout(read_in_background, kHiddenGrace);
      return;
    }
    if (in_background) {
      stop_reading();
      on_event("away", "paused in a background tab");
    }
    if (!running) start_reading();
  }
  document.addEventListener("visibilitychange", on_visibility_change);
  addEventListener("pagehide", stop_reading);
  addEventListener("pageshow", on_visibility_change);
  subscribe_to_token(() => (stop_reading(), on_visibility_change()));
  on_visibility_change();
}
