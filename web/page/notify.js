// "Notify me": one browser notification when a waiting claim gets its GPUs or ends without them. Only
// for this tab, and only while it is open.
import { ask } from "./api.js";

const watched = new Map(); // the IDs of leases without a notification yet

export const can_notify = () => "Notification" in window && isSecureContext && Notification.permission !== "denied";
export const is_watched = (lease) => watched.has(lease.id);
// Whether a hidden tab has to keep listening.
export const is_watching = () => watched.size > 0;

export async function watch(lease) {
  if ((await Notification.requestPermission()) === "granted") watched.set(lease.id, true);
}

export const unwatch = (lease) => watched.delete(lease.id);

function tell(id, title, body) {
  watched.delete(id);
  new Notification(title, { body, tag: id });
}

// Takes a lease of an event or an answer.
export function look_at({ id, state, gpus }) {
  if (!watched.has(id) || state === "waiting") return;
  const names = gpus.map(({ index }) => index).join(", ");
  if (state === "held") tell(id, "Your GPUs are ready", `You now hold GPU ${names} (lease ${id}).`);
  else tell(id, "Your claim has ended", `Claim ${id} is no longer waiting.`);
}

// Takes all waiting claims, and requests the state of those that wait no longer.
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
