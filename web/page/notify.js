// "Notify me": one browser notification when a waiting claim gets its GPUs or ends without them. Only
// for this tab, and only while it is open.
import { fetch_json } from "./api.js";

const subscriptions = new Set(); // the IDs of leases without a notification yet

export const can_notify = () => "Notification" in window && isSecureContext && Notification.permission !== "denied";
export const is_subscribed = (lease) => subscriptions.has(lease.id);
// Whether a hidden tab needs events.
export const has_subscriptions = () => subscriptions.size > 0;

export async function subscribe(lease) {
  if ((await Notification.requestPermission()) === "granted") subscriptions.add(lease.id);
}

export const unsubscribe = (lease) => subscriptions.delete(lease.id);

function show_notification(id, title, body) {
  subscriptions.delete(id);
  new Notification(title, { body, tag: id });
}

// Notifies the user if this lease, of an event or a reply, no longer waits.
export function check_lease({ id, state, gpus }) {
  if (!subscriptions.has(id) || state === "waiting") return;
  const names = gpus.map(({ index }) => index).join(", ");
  if (state === "held") show_notification(id, "Your GPUs are ready", `You now hold GPU ${names} (lease ${id}).`);
  else show_notification(id, "Your claim has ended", `Claim ${id} is no longer waiting.`);
}

// Accepts all waiting claims, and requests the state of those that wait no longer.
export function check_waiting_leases(waiting) {
  const waiting_ids = new Set(waiting.map(({ id }) => id));
  for (const id of subscriptions.keys()) {
    if (waiting_ids.has(id)) continue;
    fetch_json(`/api/gpu/leases/${id}`).then(
      ({ lease }) => check_lease(lease),
      (error) => error.status === 404 && check_lease({ id, state: "ended", gpus: [] }),
    );
  }
}
