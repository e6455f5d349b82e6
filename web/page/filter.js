// The filter: "temp>80 & user==alice", "(mem<10 | !util) & why~cap", or a plain word. A word on its
// own is searched in all fields of a row; a field on its own is true if it is known and not 0.
//
//   filter = all {"|" all};  all = one {"&" one};  one = "!" one | "(" filter ")" | test
//   test   = word [("==" | "!=" | ">=" | "<=" | ">" | "<" | "~" | "!~") value]
//
// A comparison with an unknown reading is false, and so is one of a number with a text. Quotes only let a word contain signs and spaces. tests/data/filters.json has the
// cases, for here and for `gpuyard top`.

const kToken = /\s*(?:(==|!=|>=|<=|!~|[<>~&|()!])|"([^"]*)"|([^\s&|()!<>=~"]+))/y;

export class FilterError extends Error {
  constructor(message, column) {
    super(`column ${column}: ${message}`);
    this.column = column;
  }
}

function tokens_of(text) {
  const tokens = [];
  kToken.lastIndex = 0;
  const end = text.trimEnd().length;
  while (kToken.lastIndex < end) {
    const position = kToken.lastIndex;
    const begin = position + /^\s*/.exec(text.slice(position))[0].length;
    const found = kToken.exec(text);
    if (!found) throw new FilterError(`unexpected "${text[begin]}"`, begin + 1);
    tokens.push({ sign: found[1], word: found[2] ?? found[3], column: begin + 1 });
  }
  tokens.push({ sign: "end", column: text.length + 1 });
  return tokens;
}

const kFigure = /^-?\d+(\.\d+)?$/;
const kCompare = {
  "==": (a, b) => a === b,
  "!=": (a, b) => a !== b,
  ">=": (a, b) => a >= b,
  "<=": (a, b) => a <= b,
  ">": (a, b) => a > b,
  "<": (a, b) => a < b,
};

function compare(value, sign, wanted) {
  if (value === null || value === undefined) return false;
  const text = String(value).toLowerCase();
  const word = wanted.toLowerCase();
  if (sign === "~") return text.includes(word);
  if (sign === "!~") return !text.includes(word);
  if (typeof value === "number") return kFigure.test(wanted) && kCompare[sign](value, Number(wanted));
  return kCompare[sign](text, word);
}

// Returns a test of rows, whose fields these are; throws FilterError. An empty text lets all pass.
export function filter_of(text, fields) {
  if (text.trim() === "") return () => true;
  const tokens = tokens_of(text);
  let next = 0;
  const accept = (sign) => tokens[next].sign === sign && ++next;

  function parse_one() {
    if (accept("!")) {
      const inner = parse_one();
      return (row) => !inner(row);
    }
    if (accept("(")) {
      const inner = parse_any();
      if (!accept(")")) throw new FilterError('missing ")"', tokens[next].column);
      return inner;
    }
    const { word, sign, column } = tokens[next];
    if (word === undefined) {
      throw new FilterError(sign === "end" ? "the filter ends too early" : `nothing before "${sign}"`,
        column);
    }
    next++;
    const operator = tokens[next].sign;
    if (operator in kCompare || operator === "~" || operator === "!~") {
      if (!fields.includes(word)) {
        throw new FilterError(`unknown field "${word}"; fields are ${fields.join(", ")}`, column);
      }
      const value = tokens[++next];
      if (value.word === undefined) throw new FilterError(`"${operator}" needs a value`, value.column);
      next++;
      return (row) => compare(row[word], operator, value.word);
    }
    if (fields.includes(word)) return (row) => Boolean(row[word]);
    return (row) => fields.some((field) => compare(row[field], "~", word));
  }

  function parse_all() {
    const parts = [parse_one()];
    while (accept("&")) parts.push(parse_one());
    return (row) => parts.every((part) => part(row));
  }

  function parse_any() {
    const parts = [parse_all()];
    while (accept("|")) parts.push(parse_all());
    return (row) => parts.some((part) => part(row));
  }

  const whole = parse_any();
  if (tokens[next].sign !== "end") {
    throw new FilterError('missing "&" or "|"', tokens[next].column);
  }
  return whole;
}
