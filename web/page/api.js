// Requests to the daemon, with the token if the user has entered one. The token is only in the memory
// of the open tabs: they pass it to a new tab, and it is lost with the last one.
// An address such as a tunnel's may lead to different machines over time, so only tabs of the same
// run of a daemon exchange messages.

let token = "";
const told = new Set();
const instance = document.body.dataset.instance ?? "";
export const name_of = (what) => `gpuyard-${what}-${instance}`; // of a channel or lock that tabs share
export const channel_of = (what) => ("BroadcastChannel" in window && instance ? new BroadcastChannel(name_of(what)) : null);
const channel = channel_of("token");

export const has_token = () => token !== "";
export const authorisation = () => (token ? { Authorization: `Bearer ${token}` } : {});

export function take_token(text) {
  token = text;
  channel?.postMessage({ token });
  for (const tell of told) tell();
}

// Calls `tell` when the token changes.
export const on_token = (tell) => told.add(tell);

channel?.addEventListener("message", ({ data }) => {
  if (data.asked) {
    if (token) channel.postMessage({ token });
  } else if (data.token !== token) {
    token = data.token;
    for (const tell of told) tell();
  }
});
channel?.postMessage({ asked: true });

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

const kPatience = 15000;
const kPatienceForChanges = 60000; // a sink may take 15 s, the reset of a GPU longer

// Returns the JSON of an answer; throws Refused with the daemon's message.
async function answer_to(path, options, patience = kPatience) {
  const answer = await fetch(path, { ...options, signal: AbortSignal.timeout(patience) }).catch((error) => {
    throw error.name === "TimeoutError" ? new Error(`the daemon has not responded for ${patience / 1000} s`) : error;
  });
  const body = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refused(answer.status, body.error?.message ?? `the daemon responded with status ${answer.status}`);
  return body;
}

export function ask(path, parameters = {}) {
  const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value !== ""));
  return answer_to(query.size ? `${path}?${query}` : path, { headers: authorisation() });
}

// Requests a change. Over plain HTTP the daemon accepts no token, and without one it refuses changes.
export const may_act = () => location.protocol === "https:" && has_token();
export function send(method, path, body) {
  const headers = { ...authorisation(), "Content-Type": "application/json" };
  return answer_to(path, { method, headers, body: body && JSON.stringify(body) }, kPatienceForChanges);
}
