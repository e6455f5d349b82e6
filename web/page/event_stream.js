// The event stream, one for all tabs of this browser: the tab that holds a lock reads it and passes
// each event to the others. A tab that is hidden for a while releases the lock. If all are hidden,
// nothing is read, except events without samples by a tab that waits for one. A browser without locks
// (plain HTTP from another machine) has one stream per tab.
import { authorisation, channel_of, name_of, on_token } from "./api.js";

const kUrl = "/api/gpu/events?samples=columns";
const kQuietUrl = "/api/gpu/events?samples=none";
const kHiddenFor = 5000;
const kFirstPause = 500;
const kLongestPause = 10000;

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
  new Promise((go_on) => {
    const timer = setTimeout(go_on, ms);
    signal.addEventListener("abort", () => (clearTimeout(timer), go_on(null)), { once: true });
  });

// Calls tell(name, data) with each event, with "away" and why while there is no stream, and with
// "refused" where a token is needed. `waits()`: whether this tab needs events while it is hidden.
export function follow(tell, waits) {
  const channel = channel_of("events");
  let running = null; // an AbortController: ends the wait for the lock, and the stream
  let leading = false;
  let hiding = 0;
  let quiet = false; // what runs is the stream of a hidden tab
  let last_id = "";
  let known = {}; // the last resync and columns, for a tab that comes later

  function take(event) {
    if (event.id) last_id = event.id;
    if (event.name === "resync") known = { resync: event };
    if (event.name === "columns") known.columns = event;
    tell(event.name, event.data);
  }
  function hand(event) {
    channel?.postMessage(event);
    take(event);
  }
  channel?.addEventListener("message", ({ data: event }) => {
    if (event.name !== "hello") return take(event);
    if (!leading || !known.resync) return;
    channel.postMessage({ ...known.resync, id: last_id });
    if (known.columns) channel.postMessage(known.columns);
  });

  // For a hidden tab. A resync of this stream has other fields, so the changes are requested, and all
  // the rest when the tab is visible again.
  function take_quietly(event) {
    if (event.name !== "resync") return take(event);
    last_id = event.id;
    known = {};
    tell("load", null);
  }

  async function read(signal, url = kUrl, deliver = hand) {
    let wait = kFirstPause;
    while (!signal.aborted) {
      let why = "the daemon closed the stream";
      try {
        const headers = authorisation();
        if (known.resync && last_id) headers["Last-Event-ID"] = last_id;
        const answer = await fetch(url, { headers, signal });
        if (answer.status === 401 || answer.status === 403) {
          deliver({ name: "refused", data: (await answer.json()).error.message });
          return;
        }
        if (!answer.ok) throw new Error(`the daemon responded with status ${answer.status}`);
        wait = kFirstPause;
        for await (const event of events_of(answer.body)) deliver(event);
      } catch (error) {
        why = error.message;
      }
      if (signal.aborted) return;
      deliver({ name: "away", data: why });
      await pause(wait, signal);
      wait = Math.min(wait * 2, kLongestPause);
    }
  }

  function begin() {
    running = new AbortController();
    const { signal } = running;
    if (!navigator.locks || !channel) return read(signal);
    channel.postMessage({ name: "hello" });
    return navigator.locks
      .request(name_of("events"), { signal }, async () => {
        leading = true;
        await read(signal);
        leading = false;
      })
      .catch(() => {}); // aborted before the lock was granted
  }
  function end() {
    running?.abort();
    running = null;
    leading = false;
    quiet = false;
  }
  // The lock is for visible tabs.
  function hide() {
    end();
    tell("away", "paused in a background tab");
    if (!waits()) return;
    quiet = true;
    running = new AbortController();
    read(running.signal, kQuietUrl, take_quietly);
  }
  function look() {
    clearTimeout(hiding);
    if (document.hidden) {
      hiding = setTimeout(hide, kHiddenFor);
      return;
    }
    if (quiet) {
      end();
      tell("away", "paused in a background tab");
    }
    if (!running) begin();
  }
  document.addEventListener("visibilitychange", look);
  addEventListener("pagehide", end);
  addEventListener("pageshow", look);
  on_token(() => (end(), look()));
  look();
}
