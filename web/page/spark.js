// A minute as a small line, 0 to 100, on a canvas: drawn only when its values have changed.
import { useEffect, useRef } from "preact/hooks";
import { h } from "./view.js";

const kPoints = 60;
const kWidth = 120;
const kHeight = 24;

const dark = matchMedia("(prefers-color-scheme: dark)");

function draw(canvas, values) {
  const scale = devicePixelRatio || 1;
  if (canvas.width !== kWidth * scale) {
    canvas.width = kWidth * scale;
    canvas.height = kHeight * scale;
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, kWidth, kHeight);
  pen.strokeStyle = getComputedStyle(canvas).color;
  pen.lineWidth = 1.5;
  pen.beginPath();
  let pen_down = false; // an unknown value leaves a gap
  values.forEach((value, index) => {
    if (value === null) return (pen_down = false);
    const x = ((kPoints - values.length + index) / (kPoints - 1)) * kWidth;
    const y = kHeight - 1.5 - (value / 100) * (kHeight - 3);
    pen_down ? pen.lineTo(x, y) : pen.moveTo(x, y);
    return (pen_down = true);
  });
  pen.stroke();
}

export function Spark({ values }) {
  const canvas = useRef(null);
  useEffect(() => draw(canvas.current, values), [values.length, values.at(-1), values[0], dark.matches]);
  return h`<canvas class="spark" ref=${canvas} aria-hidden="true" />`;
}
