// Where in a pack's YAML a place is: the keys above it, also in a text that does not parse yet.

const KEY = /^("(?:[^"\\]|\\.)*"|'[^']*'|[^\s#{}[\],&*!|>'"%@`-][^#]*?|-[^\s#][^#]*?)\s*:(?=\s|$)/;

const bare = (key) => key.trim().replace(/^(["'])(.*)\1$/, "$2");

/**
 * The place of an offset.
 *
 * path: keys, "-" for an entry of a list. inValue: behind a key's colon, or in a list in brackets.
 * from: where the word under the offset begins. used: keys that the mapping has already.
 * quote: the quote that is open there, or "". line: number of the line, from 1.
 * Returns null in a comment.
 */
export function placeOf(text, offset) {
  const lines = text.slice(0, offset).split("\n");
  const last = lines.length - 1;
  let blocks = []; // {indent, seq, key, used}
  let flow = []; // {open, key, from, used}
  let quote = "";
  let scalar = -1; // indent of the key of a block scalar that is open
  let start = 0;
  let inValue = false;
  let from = 0;
  let comment = false;

  const scan = (line, at, base) => {
    // What stands in a value: brackets, quotes, a comment.
    let token = at;
    if (!flow.length) from = base + at;
    for (let i = at; i < line.length; i += 1) {
      const c = line[i];
      if (quote) {
        if (c === "\\" && quote === '"') i += 1;
        else if (c === quote) {
          if (quote === "'" && line[i + 1] === "'") i += 1;
          else quote = "";
        }
        continue;
      }
      const top = flow[flow.length - 1];
      const begins = line.slice(token, i).trim() === "";
      if ((c === '"' || c === "'") && begins) {
        quote = c;
        from = base + i;
      } else if (c === "#" && (i === 0 || /\s/.test(line[i - 1]))) {
        comment = true;
        return;
      } else if ((c === "{" || c === "[") && (flow.length || begins)) {
        flow.push({ open: c, key: null, used: [] });
        token = i + 1;
        from = base + token;
      } else if (top && (c === "}" || c === "]")) {
        flow.pop();
        token = i + 1;
        from = base + token;
      } else if (top && c === ",") {
        top.key = null;
        token = i + 1;
        from = base + token;
      } else if (top && top.open === "{" && top.key === null && c === ":" && /\s|^$/.test(line[i + 1] ?? "")) {
        top.key = bare(line.slice(token, i));
        top.used.push(top.key);
        token = i + 1;
        from = base + token;
      }
    }
  };

  for (let n = 0; n <= last; n += 1) {
    const line = lines[n];
    const base = start;
    start += line.length + 1;
    comment = false;
    if (flow.length || quote) {
      if (!quote) from = base;
      scan(line, 0, base);
      continue;
    }
    const blank = line.trim() === "";
    let indent = line.length - line.trimStart().length;
    if (scalar >= 0) {
      if (blank || indent > scalar) {
        if (n === last && (indent > scalar || line.length > scalar)) return { scalar: true, line: n + 1 };
        if (n < last) continue;
      }
      scalar = -1;
    }
    if (blank && n < last) continue;
    if (line.trimStart().startsWith("#")) {
      comment = true;
      continue;
    }
    const dash = /^-(\s|$)/.test(line.slice(indent));
    while (blocks.length) {
      const top = blocks[blocks.length - 1];
      if (top.indent > indent || (top.indent === indent && !(top.seq && dash))) {
        // A list may stand as far left as the key that it belongs to.
        if (top.indent === indent && !top.seq && dash) break;
        blocks.pop();
        if (top.indent === indent && !top.seq) {
          blocks.pending = { indent, used: top.used };
          break;
        }
      } else break;
    }
    let used = blocks.pending && blocks.pending.indent === indent ? blocks.pending.used : [];
    blocks.pending = null;
    let at = indent;
    while (/^-(\s|$)/.test(line.slice(at))) {
      const top = blocks[blocks.length - 1];
      if (!(top && top.seq && top.indent === at)) blocks.push({ indent: at, seq: true, key: "-", used: [] });
      at += 1;
      while (line[at] === " ") at += 1;
      used = [];
    }
    from = base + at;
    inValue = false;
    const rest = line.slice(at);
    const key = KEY.exec(rest);
    if (key) {
      const name = bare(key[1]);
      used = [...used, name];
      blocks.push({ indent: at, seq: false, key: name, used });
      let value = at + key[0].length;
      while (line[value] === " ") value += 1;
      inValue = true;
      if (/^[|>][+-]?\d?\s*(#.*)?$/.test(line.slice(value))) {
        scalar = at;
        if (n === last) return null;
        continue;
      }
      scan(line, value, base);
    } else {
      blocks.here = { at, used };
      scan(line, at, base);
    }
  }
  if (comment) return null;
  const path = blocks.map((one) => one.key);
  let used = [];
  if (flow.length) {
    for (const one of flow) {
      if (one.open === "[") path.push("-");
      else if (one.key !== null) path.push(one.key);
    }
    const top = flow[flow.length - 1];
    inValue = top.open === "[" || top.key !== null;
    used = top.used;
  } else if (!inValue) {
    used = [...(blocks.here?.used ?? []), ...below(text, offset, blocks.here?.at ?? 0)];
  }
  while (from < offset && /\s/.test(text[from])) from += 1;
  return { path, inValue, from, used, quote, line: last + 1, flow: flow.length > 0 };
}

// Keys of the same mapping that stand further down.
function below(text, offset, indent) {
  const found = [];
  for (const line of text.slice(offset).split("\n").slice(1)) {
    if (line.trim() === "" || line.trimStart().startsWith("#")) continue;
    const own = line.length - line.trimStart().length;
    if (own < indent || (own === indent && line[own] === "-")) break;
    const key = own === indent ? KEY.exec(line.slice(own)) : null;
    if (key) found.push(bare(key[1]));
  }
  return found;
}
