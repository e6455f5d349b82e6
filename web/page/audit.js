// The audit log, for users who may change GPUs.
import { useQuery } from "./app_state.js";
import { Command, QueryResult, Table } from "./components.js";
import { day_and_clock } from "./format.js";
import { h } from "./view.js";

const kPollInterval = 5000;

export function Audit() {
  const audit = useQuery("/api/gpu/manage/audit", { limit: 200 }, kPollInterval);
  const refused = audit.error?.status === 401 || audit.error?.status === 403;
  if (refused) {
    return h`<section><p>Only users who may change GPUs can see the audit log. On the machine, run
      <${Command} line="gpuyard audit" /></p><p class="quiet">${audit.error.message}</p></section>`;
  }
  return h`<${QueryResult} result=${audit}>${({ entries }) => h`<${Table}
    caption="Changes and refused requests" empty="No changes recorded yet." rows=${entries}
    key_of=${(entry) => entry.number}
    columns=${[
      ["Time", (entry) => day_and_clock(Date.parse(entry.at))],
      ["User", (entry) => entry.by],
      ["GPU", (entry) => entry.index ?? "", "figure"],
      ["Action", (entry) => entry.action],
      ["From", (entry) => entry.before ?? ""],
      ["To", (entry) => entry.after ?? ""],
      ["Result", (entry) => entry.error ? `${entry.outcome}: ${entry.error.message ?? entry.error}` : entry.outcome],
    ]} />`}<//>`;
}
