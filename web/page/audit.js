// Who changed what, for who may change something; for all, what the changes are that run.
import { day_and_clock } from "./format.js";
import { Answer, Command, Table } from "./parts.js";
import { h } from "./view.js";
import { useAnswer } from "./yard.js";

const kEvery = 5000;

export function Audit() {
  const audit = useAnswer("/api/gpu/manage/audit", { limit: 200 }, kEvery);
  const refused = audit.error?.status === 401 || audit.error?.status === 403;
  if (refused) {
    return h`<section><p>Who may not change anything is not told who did. On the machine:
      <${Command} line="gpuyard audit" /></p><p class="quiet">${audit.error.message}</p></section>`;
  }
  return h`<${Answer} answer=${audit}>${({ entries }) => h`<${Table}
    caption="Who changed what" empty="Nobody has changed anything yet." rows=${entries}
    key_of=${(entry) => entry.number}
    columns=${[
      ["When", (entry) => day_and_clock(Date.parse(entry.at))],
      ["Who", (entry) => entry.by],
      ["GPU", (entry) => entry.index ?? "", "figure"],
      ["What", (entry) => entry.action],
      ["From", (entry) => entry.before ?? ""],
      ["To", (entry) => entry.after ?? ""],
      ["Ended", (entry) => entry.error ? `${entry.outcome}: ${entry.error.message ?? entry.error}` : entry.outcome],
    ]} />`}<//>`;
}
