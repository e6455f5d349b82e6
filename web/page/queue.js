// Who has GPUs, who waits and why, who uses some without asking, and what is held back.
import { useEffect, useReducer } from "preact/hooks";
import { claim, release, uncordon } from "./acts.js";
import { gib, since, span } from "./format.js";
import { can_notify, is_watched, unwatch, watch } from "./notify.js";
import { Command, Do, Table } from "./parts.js";
import { h } from "./view.js";
import { learn_leases, useYard } from "./yard.js";

const kEvery = 5000;

const gpus_of = ({ gpus }) => gpus.map(({ index }) => index).join(", ");
const who = ({ user, uid }) => user ?? (uid === null ? "–" : String(uid));
const kilojoules = (use) =>
  use && use.energy_mj !== null ? `${(use.energy_mj / 3.6e9).toFixed(2)}${use.energy_unknown_s >= 1 ? "+" : ""} kWh` : "–";

function TellMe({ lease }) {
  const [, redraw] = useReducer((turn) => turn + 1, 0);
  const watched = is_watched(lease);
  const press = async () => {
    if (watched) unwatch(lease);
    else await watch(lease);
    redraw(null);
  };
  if (!can_notify()) return h`<span class="quiet">this browser shows no notifications of this page</span>`;
  return h`<button type="button" aria-pressed=${watched} onClick=${press}>${watched ? "you will be told" : "tell me"}</button>`;
}

export function Queue() {
  const { leases, queue } = useYard();
  useEffect(() => {
    const timer = setInterval(() => document.hidden || learn_leases(), kEvery);
    return () => clearInterval(timer);
  }, []);
  if (!queue) return h`<p class="quiet">asking…</p>`;
  const held = leases.filter(({ state }) => state !== "waiting");
  return h`
    <section><h2>Who waits</h2>
    <${Table} caption="Who waits for GPUs" empty="Nobody waits." rows=${queue.waiting} key_of=${(lease) => lease.id}
      columns=${[
        ["Place", (lease) => lease.place?.position ?? "–", "figure"],
        ["User", who],
        ["Wants", (lease) => lease.wanted_gpus, "figure"],
        ["Since", (lease) => since(lease.asked), "figure"],
        ["About", (lease) => span(lease.place?.expected_s), "figure"],
        ["Why", (lease) => lease.place?.text ?? ""],
        ["When it is their turn", (lease) => h`<${TellMe} lease=${lease} />`],
        ["Give up", (lease) => h`<${Do} action=${release(lease)} />`],
      ]} />
    <p>To run something on two: <${Command} line="gpuyard run -n 2 -- python3 train.py" /></p>
    <p>To have one for a time: <${Do} action=${claim()} /></p></section>
    <section><h2>Who has GPUs</h2>
    <${Table} caption="Leases" empty="No GPU is leased." rows=${held} key_of=${(lease) => lease.id}
      columns=${[
        ["GPUs", gpus_of],
        ["User", who],
        ["For", (lease) => since(lease.granted), "figure"],
        ["Idle", (lease) => span(lease.use?.idle_s), "figure"],
        ["Busy", (lease) => (lease.use?.mean_utilization_percent == null ? "–" : `${Math.round(lease.use.mean_utilization_percent)} %`), "figure"],
        ["Energy", (lease) => kilojoules(lease.use), "figure"],
        ["What", (lease) => lease.note],
        ["State", (lease) => [lease.state, lease.overdue ? "overdue" : "", lease.why].filter(Boolean).join(", ")],
        ["Give up", (lease) => h`<${Do} action=${release(lease)} />`],
      ]} /></section>
    <section><h2>Without a lease</h2>
    <${Table} caption="Processes that use GPUs without a lease" empty="Nobody uses a GPU without a lease."
      rows=${queue.squatters} key_of=${(one) => `${one.pid} ${one.uuid}`}
      columns=${[
        ["GPU", (one) => one.index, "figure"],
        ["User", who],
        ["PID", (one) => one.pid, "figure"],
        ["Command", (one) => one.command],
        ["GiB", (one) => gib(one.memory_bytes), "figure"],
        ["For", (one) => span(one.age_s), "figure"],
        // A process of a machine is adopted on that machine: the daemon takes no token for it.
        ["What to do", (one) => h`<${Command} line=${one.resolve} />`],
      ]} /></section>
    <section><h2>Held back</h2>
    <${Table} caption="GPUs that are handed out to nobody" empty="Every GPU may be leased."
      rows=${queue.withheld} key_of=${(one) => one.uuid}
      columns=${[
        ["GPU", (one) => one.index, "figure"],
        ["Why", (one) => one.text],
        ["Since", (one) => since(one.since), "figure"],
        ["Hand out again", (one) => (one.why === "cordoned" ? h`<${Do} action=${uncordon(one)} />` : "")],
      ]} /></section>`;
}
