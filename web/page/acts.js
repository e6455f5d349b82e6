// Everything that the page can change, in one place: what it is called, what it asks for, the command
// that does the same, what the daemon says would happen, and the request. An action is bound to what
// it is about - a UUID, a lease, an alert's number - and never to a row.
import { ask, send } from "./api.js";
import { seconds_of } from "./format.js";

const manage = (gpu, what) => `/api/gpu/manage/${gpu.uuid}/${what}`;
const quoted = (text) => `"${text.replace(/["\\$`]/g, "\\$&")}"`;
const kFor = { name: "for", label: "for", value: "30m", pattern: "\\d+[smhd]" };

// What a change came to, or would come to, in words; throws what went wrong.
function told({ changes }) {
  const failed = changes.find(({ error }) => error);
  if (failed) throw new Error(failed.error.message);
  return changes.map(({ before, after }) => `${before?.text ?? "?"} now, ${after?.text ?? "?"} then`).join("; ");
}

export const cap = (gpu) => ({
  title: "Cap",
  about: `the power limit of GPU ${gpu.index} (${gpu.uuid})`,
  proof: String(gpu.index),
  fields: [
    { name: "watts", label: "watts", value: String(Math.round((gpu.power_limit_w ?? 300) * 0.8)), pattern: "\\d+" },
    kFor,
  ],
  line: (values) => `gpuyard power ${gpu.index} ${values.watts} --for ${values.for}`,
  plan: async (values) => told(await send("PUT", manage(gpu, "power-limit"), { ...body_of_cap(values), dry_run: true })),
  act: async (values) => told(await send("PUT", manage(gpu, "power-limit"), body_of_cap(values))),
});
const body_of_cap = (values) => ({ power_limit_mw: Number(values.watts) * 1000, for_s: seconds_of(values.for) });

export const cordon = (gpu) => ({
  title: "Cordon",
  about: `GPU ${gpu.index} (${gpu.uuid}): handed out to nobody from now on; a lease of it goes on`,
  proof: String(gpu.index),
  fields: [{ name: "reason", label: "because", value: "its fan is replaced" }],
  line: (values) => `gpuyard cordon ${gpu.index} --reason ${quoted(values.reason)}`,
  act: (values) => send("PUT", manage(gpu, "cordon"), { reason: values.reason }),
});

export const uncordon = (gpu) => ({
  title: "Uncordon",
  about: `GPU ${gpu.index} (${gpu.uuid}) is handed out again`,
  line: () => `gpuyard uncordon ${gpu.index}`,
  act: () => send("DELETE", manage(gpu, "cordon")),
});

export const acknowledge = (alert) => ({
  title: "Acknowledge",
  about: `alert ${alert.number}, ${alert.message}: nobody is told of it again until it is over`,
  fields: [{ name: "note", label: "what is done", value: "", optional: true }],
  line: (values) => `gpuyard alerts ack ${alert.number}${values.note ? ` --note ${quoted(values.note)}` : ""}`,
  act: (values) => send("POST", `/api/gpu/alerts/${alert.number}/acknowledge`, values.note ? { note: values.note } : {}),
});

export const silence = (alert) => ({
  title: "Silence",
  about: `rule ${alert.rule}${alert.gpu ? ` of GPU ${alert.gpu.index}` : ""}: nobody is told of it meanwhile`,
  fields: [{ ...kFor, value: "1h" }],
  line: (values) => `gpuyard alerts silence ${alert.gpu ? `${alert.gpu.index} ` : ""}--rule ${alert.rule} --for ${values.for}`,
  act: (values) =>
    send("POST", "/api/gpu/silences", { rule: alert.rule, gpu: alert.gpu?.uuid, for_s: seconds_of(values.for) }),
});

export const unsilence = (one) => ({
  title: "End",
  about: `the silence ${one.id}`,
  line: () => `gpuyard alerts unsilence ${one.id}`,
  act: () => send("DELETE", `/api/gpu/silences/${one.id}`),
});

export const claim = () => ({
  title: "Claim",
  about: "GPUs for a time: all of them or none, first come, first served",
  fields: [
    { name: "gpus", label: "GPUs", value: "1", pattern: "[1-9]\\d*" },
    { ...kFor, value: "1h" },
  ],
  line: (values) => `gpuyard lease take -n ${values.gpus} --ttl ${values.for}`,
  act: (values) =>
    send("POST", "/api/gpu/leases", {
      gpus: Number(values.gpus), binding: "detached", ttl_s: seconds_of(values.for), answer_within_s: 0,
    }),
});

export const release = (lease) => ({
  title: "Give up",
  about: lease.gpus.length
    ? `the lease ${lease.id} of ${lease.user ?? lease.uid}, with GPU ${lease.gpus.map(({ index }) => index).join(", ")}`
    : `the place of ${lease.user ?? lease.uid} in the queue`,
  proof: lease.user ?? String(lease.uid),
  line: () => `gpuyard lease release ${lease.id}`,
  // Another may have it by now: the daemon is asked once more whose it is.
  act: async () => {
    const { lease: now } = await ask(`/api/gpu/leases/${lease.id}`);
    if (now.fence !== lease.fence || now.uid !== lease.uid) throw new Error("it has changed hands meanwhile");
    return send("DELETE", `/api/gpu/leases/${lease.id}`);
  },
});
