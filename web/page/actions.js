// The actions of the page: the title and the fields of each, the equivalent command, the request, and
// the dry run. An action is bound to a UUID, a lease or an alert's number, never to a row.
//
//   {title, about, proof, fields, line(values), dry_run(values), apply(values), undo(values, result)}
//
// `dry_run` and `apply` return a text or the daemon's reply; `undo` returns the opposite action, and its
// `result` is what `apply` returned.
import { fetch_json, send } from "./api.js";
import { seconds_of } from "./format.js";

const manage_path = (gpu, resource) => `/api/gpu/manage/${gpu.uuid}/${resource}`;
const quote = (text) => `"${text.replace(/["\\$`]/g, "\\$&")}"`;
const quote_if_needed = (text) => (/^[\w.-]+$/.test(text) ? text : quote(text));
const kDurationField = { name: "for", label: "for", value: "30m", pattern: "\\d+[smhd]" };

// Describes the result of a change or of its dry run; throws the first error.
function describe_change({ changes }, words = ["now", "then"]) {
  const failed = changes.find(({ error }) => error);
  if (failed) throw new Error(failed.error.message);
  return changes.map(({ before, after }) => `${before?.text ?? "?"} ${words[0]}, ${after?.text ?? "?"} ${words[1]}`).join("; ");
}
const kAppliedWords = ["before", "now"];

export const limit_power = (gpu) => ({
  title: "Cap power",
  about: `the power limit of GPU ${gpu.index} (${gpu.uuid})`,
  proof: String(gpu.index),
  fields: [
    { name: "watts", label: "watts", value: String(Math.round((gpu.power_limit_w ?? 300) * 0.8)), pattern: "\\d+" },
    kDurationField,
  ],
  line: (values) => `gpuyard power ${gpu.index} ${values.watts} --for ${values.for}`,
  dry_run: async (values) => describe_change(await send("PUT", manage_path(gpu, "power-limit"), { ...power_limit_body(values), dry_run: true })),
  apply: async (values) => describe_change(await send("PUT", manage_path(gpu, "power-limit"), power_limit_body(values)), kAppliedWords),
  undo: () => restore(gpu, "power_limit"),
});
const power_limit_body = (values) => ({ power_limit_mw: Number(values.watts) * 1000, for_s: seconds_of(values.for) });

// setting: [its route, the command without the GPU, and its options]
const kRestore = {
  power_limit: ["power-limit", "power", "--restore"],
  gpu_clocks: ["gpu-clocks", "clocks", "--restore gpu"],
  memory_clocks: ["memory-clocks", "clocks", "--restore memory"],
  persistence: ["persistence", "persistence", "--restore"],
  compute_mode: ["compute-mode", "compute-mode", "--restore"],
  ecc: ["ecc", "ecc", "--restore"],
};

export const restore = (gpu, setting) => {
  const [route, verb, options] = kRestore[setting];
  return {
    title: "Restore",
    about: `the ${setting.replaceAll("_", " ")} of GPU ${gpu.index} (${gpu.uuid}): your setting is withdrawn`,
    line: () => `gpuyard ${verb} ${gpu.index} ${options}`,
    dry_run: async () => describe_change(await send("DELETE", `${manage_path(gpu, route)}?dry_run=true`)),
    apply: async () => describe_change(await send("DELETE", manage_path(gpu, route)), kAppliedWords),
  };
};

export const reset = (gpu) => ({
  title: "Reset",
  about: `GPU ${gpu.index} (${gpu.uuid}): all GPUs of the machine are unavailable during the reset. This cannot be undone`,
  proof: String(gpu.index),
  line: () => `gpuyard reset ${gpu.index}`,
  dry_run: async () => (check_changes(await send("POST", manage_path(gpu, "reset"), { dry_run: true })), "no process is using it: it would be reset"),
  apply: async () => check_changes(await send("POST", manage_path(gpu, "reset"), {})),
});
function check_changes({ changes }) {
  const failed = changes.find(({ error }) => error);
  if (failed) throw new Error(failed.error.message);
}

export const cordon = (gpu) => ({
  title: "Cordon",
  about: `GPU ${gpu.index} (${gpu.uuid}): it gets no new leases; a current lease continues`,
  proof: String(gpu.index),
  fields: [{ name: "reason", label: "reason", value: "fan replacement" }],
  line: (values) => `gpuyard cordon ${gpu.index} --reason ${quote(values.reason)}`,
  apply: (values) => send("PUT", manage_path(gpu, "cordon"), { reason: values.reason }),
  undo: () => uncordon(gpu),
});

export const uncordon = (gpu) => ({
  title: "Uncordon",
  about: `GPU ${gpu.index} (${gpu.uuid}) can be leased again`,
  line: () => `gpuyard uncordon ${gpu.index}`,
  apply: () => send("DELETE", manage_path(gpu, "cordon")),
});

export const acknowledge = (alert) => ({
  title: "Acknowledge",
  about: `alert ${alert.number}, ${alert.message}: no more notifications until it is resolved`,
  fields: [{ name: "note", label: "note", value: "", optional: true }],
  line: (values) => `gpuyard alerts ack ${alert.number}${values.note ? ` --note ${quote(values.note)}` : ""}`,
  apply: (values) => send("POST", `/api/gpu/alerts/${alert.number}/acknowledge`, values.note ? { note: values.note } : {}),
});

export const silence = (alert) => ({
  title: "Silence",
  about: `rule ${alert.rule}${alert.gpu ? ` of GPU ${alert.gpu.index ?? alert.gpu.uuid}` : ""}: its notifications are muted during this time`,
  fields: [{ ...kDurationField, value: "1h" }],
  line: (values) => `gpuyard alerts silence ${alert.gpu ? `${alert.gpu.index ?? alert.gpu.uuid} ` : ""}--rule ${alert.rule} --for ${values.for}`,
  apply: (values) =>
    send("POST", "/api/gpu/silences", { rule: alert.rule, gpu: alert.gpu?.uuid, for_s: seconds_of(values.for) }),
  undo: (_, result) => unsilence(result),
});

export const unsilence = (one) => ({
  title: "End silence",
  about: `silence ${one.id}`,
  line: () => `gpuyard alerts unsilence ${one.id}`,
  apply: () => send("DELETE", `/api/gpu/silences/${one.id}`),
});

export const test_sink = (sink) => ({
  title: "Test",
  about: `send a test notification to ${sink.name} (${sink.kind}, ${sink.where})`,
  line: () => `gpuyard alerts test --sink ${quote_if_needed(sink.name)}`,
  apply: async () => {
    const { sinks } = await send("POST", "/api/gpu/alerts/test", { sink: sink.name });
    const failed = sinks.find(({ delivered }) => !delivered);
    if (failed) throw new Error(failed.why);
    return `delivered within ${Math.max(...sinks.map(({ seconds }) => seconds)).toFixed(1)} s`;
  },
});

export const claim = () => ({
  title: "Lease",
  about: "lease GPUs for a fixed time: all of them or none, first come, first served",
  fields: [
    { name: "gpus", label: "GPUs", value: "1", pattern: "[1-9]\\d*" },
    { ...kDurationField, value: "1h" },
  ],
  line: (values) => `gpuyard lease take -n ${values.gpus} --for ${values.for}`,
  apply: (values) =>
    send("POST", "/api/gpu/leases", {
      gpus: Number(values.gpus), binding: "detached", ttl_s: seconds_of(values.for), answer_within_s: 0,
    }),
});

export const release = (lease) => ({
  title: "Release",
  about: lease.gpus.length
    ? `the lease ${lease.id} of ${lease.user ?? lease.uid}, with GPU ${lease.gpus.map(({ index }) => index).join(", ")}`
    : `the waiting claim of ${lease.user ?? lease.uid}`,
  proof: lease.user ?? String(lease.uid),
  line: () => `gpuyard lease release ${lease.id}`,
  // The lease may have changed hands since: read it again.
  apply: async () => {
    const { lease: now } = await fetch_json(`/api/gpu/leases/${lease.id}`);
    if (now.fence !== lease.fence || now.uid !== lease.uid) throw new Error("it now belongs to another user or grant");
    return send("DELETE", `/api/gpu/leases/${lease.id}`);
  },
});
