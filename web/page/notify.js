// "Tell me when it is my turn": a notification of the browser, once, when a claim that waits gets its
// GPUs or ends without. Only for this tab, and only as long as it is open.
import { ask } from "./api.js";

const watched = new Map(); // a lease's id -> nothing has been told of it yet

export const can_notify = () => "Notification" in window && isSecureContext && Notification.permission !== "denied";
export const is_watched = (lease) => watched.has(lease.id);
// Whether a tab that is hidden has to go on listening.
export const is_watching = () => watched.size > 0;

export async function watch(lease) {
  if ((await Notification.requestPermission()) === "granted") watched.set(lease.id, true);
}

export const unwatch = (lease) => watched.delete(lease.id);

function tell(id, title, body) {
  watched.delete(id);
  new Notification(title, { body, tag: id });
}

// Takes a lease as an event or an answer has it.
export function look_at({ id, state, gpus }) {
  if (!watched.has(id) || state === "waiting") return;
  const names = gpus.map(({ index }) => index).join(", ");
  if (state === "held") tell(id, "It is your turn", `You have GPU ${names} (lease ${id}).`);
  else tell(id, "You wait no longer", `The claim ${id} has ended.`);
}

// Takes all claims that wait: what became of one that does not is asked for.
export function look_at_waiting(waiting) {
  const waits = new Set(waiting.map(({ id }) => id));
  for (const id of watched.keys()) {
    if (waits.has(id)) continue;
    ask(`/api/gpu/leases/${id}`).then(
      ({ lease }) => look_at(lease),
      (error) => error.status === 404 && look_at({ id, state: "ended", gpus: [] }),
    );
  }
}
