// Numbers for people. An unknown value is a dash, never a zero.
const kMinute = 60;
const kHour = 60 * kMinute;
const kDay = 24 * kHour;

export const dash = "–";
const is_known = (value) => value !== null && value !== undefined;

export const number = (value, digits = 0) => (is_known(value) ? value.toFixed(digits) : dash);
export const percent = (value) => (is_known(value) ? `${Math.round(value)} %` : dash);
export const gib = (bytes) => (is_known(bytes) ? (bytes / 2 ** 30).toFixed(1) : dash);
export const kilowatts = (watts) =>
  !is_known(watts) ? dash : watts < 10000 ? `${Math.round(watts)} W` : `${(watts / 1000).toFixed(1)} kW`;
export const money = (estimate) =>
  estimate ? `about ${estimate.cost.toFixed(2)} ${estimate.currency}` : "";

// The sum of the known values, with a + if some are unknown; a dash if all are.
export function sum_of(values, text) {
  const known = values.filter(is_known);
  if (!known.length) return dash;
  return text(known.reduce((all, value) => all + value, 0)) + (known.length < values.length ? "+" : "");
}

// "8 H100 80GB HBM3" of one model, "2 RTX 4090, 2 H100, A100, T4" of several, as `gpuyard top` has it.
export function models_of(names) {
  const short = names.map((name) => name.replace(/^(NVIDIA |GeForce |Tesla )+(?=.)/, ""));
  const alone = (name) => name.replace(/[ -](\d+GB?|SXM|PCIe|NVL|HBM).*$/i, "");
  const counts = new Map();
  for (const name of short) counts.set(name, (counts.get(name) ?? 0) + 1);
  const models = [...counts.keys()];
  if (models.length === 0) return "0";
  if (models.length === 1) return `${short.length} ${models[0]}`;
  const apart = new Set(models.map(alone)).size === models.length;
  return models
    .map((name) => `${counts.get(name) > 1 ? `${counts.get(name)} ` : ""}${apart ? alone(name) : name}`)
    .join(", ");
}

// 95 -> "1m35", 11520 -> "3h12", 180000 -> "2d02".
export function duration_of(seconds) {
  if (!is_known(seconds)) return dash;
  const whole = Math.max(0, Math.round(seconds));
  const two = (value) => String(Math.floor(value)).padStart(2, "0");
  if (whole < kMinute) return `${whole}s`;
  if (whole < kHour) return `${Math.floor(whole / kMinute)}m${two(whole % kMinute)}`;
  if (whole < kDay) return `${Math.floor(whole / kHour)}h${two((whole % kHour) / kMinute)}`;
  return `${Math.floor(whole / kDay)}d${two((whole % kDay) / kHour)}`;
}

export const age_of = (time, now = Date.now()) => (time ? duration_of((now - Date.parse(time)) / 1000) : dash);

const pad = (value) => String(value).padStart(2, "0");
export const clock = (ms) => {
  const at = new Date(ms);
  return `${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}`;
};
export const day_and_clock = (ms) => {
  const at = new Date(ms);
  return `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())} ${clock(ms)}`;
};

// "15m" -> 900; null for any other text.
export function seconds_of(text) {
  const found = /^(\d+)(s|m|h|d)$/.exec(text ?? "");
  return found && Number(found[1]) * { s: 1, m: kMinute, h: kHour, d: kDay }[found[2]];
}
