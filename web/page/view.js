// The tags of the page: h`<b>${text}</b>`, checked by nobody but the browser, and never markup of a
// value: what is put in is text.
import { h as element } from "preact";
import htm from "htm";

export const h = htm.bind(element);
