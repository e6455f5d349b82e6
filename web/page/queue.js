// Waiting claims, leases, processes without a lease, and withheld GPUs.
import { useEffect, useReducer } from "preact/hooks";
import { claim, release, uncordon } from "./actions.js";
import { load_leases, useAppState } from "./app_state.js";
import { ActionButton, Command, Table } from "./components.js";
import { age_of, duration_of, gib } from "./format.js";
import { can_notify, is_subscribed, subscribe, unsubscribe } from "./notify.js";
import { h } from "./view.js";

const kPollInterval = 5000;

const gpus_of = ({ gpus }) => gpus.map(({ index }) => index).join(", ");
const user_of = ({ user, uid }) => user ?? (uid === null ? "–" : String(uid));
const energy_of = (use) =>
  use && use.energy_mj !== null ? `${(use.energy_mj / 3.6e9).toFixed(2)}${use.energy_unknown_s >= 1 ? "+" : ""} kWh` : "–";

function NotifyButton({ lease }) {
  const [, redraw] = useReducer((turn) => turn + 1, 0);
  const subscribed = is_subscribed(lease);
  const on_click = async () => {
    if (subscribed) unsubscribe(lease);
    else await subscribe(lease);
    redraw(null);
  };
  if (!can_notify()) return h`<span class="quiet">notifications are not available in this browser</span>`;
  return h`<button type="button" aria-pressed=${subscribed} onClick=${on_click}>${subscribed ? "notification on" : "notify me"}</button>`;
}

export function Queue() {
  const { leases, queue } = useAppState();
  useEffect(() => {
    const timer = setInterval(() => document.hidden || load_leases(), kPollInterval);
    return () => clearInterval(timer);
  }, []);
  if (!queue) return h`<p class="quiet">loading…</p>`;
  const held = leases.filter(({ state }) => state !== "waiting");
  return h`
    <section><h2>Waiting claims</h2>
    <${Table} caption="Claims waiting for GPUs" empty="No claims are waiting." rows=${queue.waiting} key_of=${(lease) => lease.id}
      columns=${[
        ["Position", (lease) => lease.place?.position ?? "–", "figure"],
        ["User", user_of],
        ["GPUs", (lease) => lease.wanted_gpus, "figure"],
        ["Waiting for", (lease) => age_of(lease.asked), "figure"],
        ["Expected wait", (lease) => duration_of(lease.place?.expected_s), "figure"],
        ["Reason", (lease) => lease.place?.text ?? ""],
        ["Notify", (lease) => h`<${NotifyButton} lease=${lease} />`],
        ["Action", (lease) => h`<${ActionButton} action=${release(lease)} />`],
      ]} />
    <p>To run a command on two GPUs: <${Command} line="gpuyard run -n 2 -- python3 train.py" /></p>
    <p>To lease a GPU for a fixed time: <${ActionButton} action=${claim()} /></p></section>
    <section><h2>Leases</h2>
    <${Table} caption="Leases" empty="No GPUs are leased." rows=${held} key_of=${(lease) => lease.id}
      columns=${[
        ["GPUs", gpus_of],
        ["User", user_of],
        ["Held for", (lease) => age_of(lease.granted), "figure"],
        ["Idle", (lease) => duration_of(lease.use?.idle_s), "figure"],
        ["Busy", (lease) => (lease.use?.mean_utilization_percent == null ? "–" : `${Math.round(lease.use.mean_utilization_percent)} %`), "figure"],
        ["Energy", (lease) => energy_of(lease.use), "figure"],
        ["Note", (lease) => lease.note],
        ["State", (lease) => [lease.state, lease.overdue ? "overdue" : "", lease.why].filter(Boolean).join(", ")],
        ["Action", (lease) => h`<${ActionButton} action=${release(lease)} />`],
      ]} /></section>
    <section><h2>Without a lease</h2>
    <${Table} caption="Processes that use GPUs without a lease" empty="No process uses a GPU without a lease."
      rows=${queue.squatters} key_of=${(one) => `${one.pid} ${one.uuid}`}
      columns=${[
        ["GPU", (one) => one.index, "figure"],
        ["User", user_of],
        ["PID", (one) => one.pid, "figure"],
        ["Command", (one) => one.command],
        ["GiB", (one) => gib(one.memory_bytes), "figure"],
        ["Running for", (one) => duration_of(one.age_s), "figure"],
        // A process is adopted on its own machine: the daemon accepts no token for that.
        ["Resolve", (one) => h`<${Command} line=${one.resolve} />`],
      ]} /></section>
    <section><h2>Withheld GPUs</h2>
    <${Table} caption="GPUs withheld from leasing" empty="All GPUs can be leased."
      rows=${queue.withheld} key_of=${(one) => one.uuid}
      columns=${[
        ["GPU", (one) => one.index, "figure"],
        ["Reason", (one) => one.text],
        ["Since", (one) => age_of(one.since), "figure"],
        ["Action", (one) => (one.why === "cordoned" ? h`<${ActionButton} action=${uncordon(one)} />` : "")],
      ]} /></section>`;
}
