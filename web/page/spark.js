// A minute as a small line, 0 to 100, on a canvas: drawn only when its values have changed.
import { useEffect, useRef } from "preact/hooks";
import { h } from "./view.js";

const kPoints = 60;
const kWide = 120;
const kHigh = 24;

const dark = matchMedia("(prefers-color-scheme: dark)");

function draw(canvas, values) {
  const scale = devicePixelRatio || 1;
  if (canvas.width !== kWide * scale) {
    canvas.width = kWide * scale;
    canvas.height = kHigh * scale;
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, kWide, kHigh);
  pen.strokeStyle = getComputedStyle(canvas).color;
  pen.lineWidth = 1.5;
  pen.beginPath();
  let down = false; // an unknown value leaves a gap
  values.forEach((value, place) => {
    if (value === null) return (down = false);
    const x = ((kPoints - values.length + place) / (kPoints - 1)) * kWide;
    const y = kHigh - 1.5 - (value / 100) * (kHigh - 3);
    down ? pen.lineTo(x, y) : pen.moveTo(x, y);
    return (down = true);
  });
  pen.stroke();
}

export function Spark({ values }) {
  const canvas = useRef(null);
  useEffect(() => draw(canvas.current, values), [values.length, values.at(-1), values[0], dark.matches]);
  return h`<canvas class="spark" ref=${canvas} aria-hidden="true" />`;
}
