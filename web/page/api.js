// Requests to the daemon, with the token if the user has entered one. The token is only in the memory
// of the open tabs: they pass it to a new tab, and it is lost with the last one.
// An address such as a tunnel's may lead to different machines over time, so only tabs of the same
// run of a daemon exchange messages.

let token = "";
const token_subscribers = new Set();
const instance = document.body.dataset.instance ?? "";
export const name_of = (kind) => `gpuyard-${kind}-${instance}`; // of a channel or lock that tabs share
export const channel_of = (kind) => ("BroadcastChannel" in window && instance ? new BroadcastChannel(name_of(kind)) : null);
const channel = channel_of("token");

export const has_token = () => token !== "";
export const authorisation = () => (token ? { Authorization: `Bearer ${token}` } : {});

export function store_token(text) {
  token = text;
  channel?.postMessage({ token });
  for (const notify of token_subscribers) notify();
}

// Calls `on_change` when the token changes.
export const subscribe_to_token = (on_change) => token_subscribers.add(on_change);

channel?.addEventListener("message", ({ data }) => {
  if (data.requested) {
    if (token) channel.postMessage({ token });
  } else if (data.token !== token) {
    token = data.token;
    for (const notify of token_subscribers) notify();
  }
});
channel?.postMessage({ requested: true });

export class RequestError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

const kReplyTimeout = 15000;
const kChangeTimeout = 60000; // a sink may take 15 s, the reset of a GPU longer

// Returns the JSON of a reply; throws RequestError with the daemon's message.
async function request_json(path, options, timeout_ms = kReplyTimeout) {
  const reply = await fetch(path, { ...options, signal: AbortSignal.timeout(timeout_ms) }).catch((error) => {
    throw error.name === "TimeoutError" ? new Error(`the daemon has not responded for ${timeout_ms / 1000} s`) : error;
  });
  const body = await reply.json().catch(() => ({}));
  if (!reply.ok) throw new RequestError(reply.status, body.error?.message ?? `the daemon responded with status ${reply.status}`);
  return body;
}

export function fetch_json(path, parameters = {}) {
  const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value !== ""));
  return request_json(query.size ? `${path}?${query}` : path, { headers: authorisation() });
}

// Requests a change. Over plain HTTP the daemon accepts no token, and without one it refuses changes.
export const can_act = () => location.protocol === "https:" && has_token();
export function send(method, path, body) {
  const headers = { ...authorisation(), "Content-Type": "application/json" };
  return request_json(path, { method, headers, body: body && JSON.stringify(body) }, kChangeTimeout);
}
