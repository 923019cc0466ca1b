// What may be written at a place: fields with their meaning, and values that the pack itself names.

import { snippet } from "@codemirror/autocomplete";
import { placeOf } from "./places.js";

/** The part of the table at a path; null where it says nothing. */
export function partAt(table, path) {
  let part = table;
  for (const step of path) {
    if (!part) return null;
    if (step === "-") part = part.i;
    else part = part.f?.[step] ?? part.a;
  }
  return part ?? null;
}

function names(kind, words, line, quote) {
  const question = [...words.questions].reverse().find((one) => one.line <= line);
  switch (kind) {
    case "category":
      return words.categories.map((name) => ({ label: name, detail: "category" }));
    case "question":
      return words.questions.map((one) => ({ label: one.id, detail: "question" }));
    case "option":
      return (question?.options ?? []).map((name) => ({ label: name, detail: "option" }));
    case "placeholder":
      return (question?.placeholders ?? []).map((name) => ({ label: name, detail: "placeholder" }));
    case "template":
      return [
        { label: "{?}", detail: "where the answer goes" },
        ...(question?.placeholders ?? []).map((name) => ({ label: `{${name}}`, detail: "placeholder" })),
      ];
    case "context":
      return [
        { label: "{X}", detail: "where the content goes" },
        ...words.parameters.map((name) => ({ label: `{${name}}`, detail: "parameter" })),
      ];
    default:
      return [];
  }
}

/** Completions at the cursor. `told()` gives the table of fields, and the pack's own words. */
export function completions(told) {
  return (context) => {
    const { table, words } = told();
    if (!table || !words) return null;
    const text = context.state.doc.toString();
    const place = placeOf(text, context.pos);
    if (!place || place.scalar) return null;
    const part = partAt(table, place.path);
    if (!part) return null;
    const holder = part.k === "template" || part.k === "context";
    if (place.quote && !holder) return null;
    let from = place.from;
    if (holder) {
      const brace = context.matchBefore(/\{[\w?]*$/);
      if (!brace) return null;
      from = brace.from;
    }
    const options = [];
    if (!place.inValue) {
      for (const [name, field] of Object.entries(part.f ?? {})) {
        if (place.used.includes(name)) continue;
        options.push({
          label: name,
          type: "property",
          detail: field.r ? "required" : "",
          info: field.h,
          apply: applied(name, field, place),
          boost: field.r ? 2 : 0,
        });
      }
      for (const one of names(part.ak, words, place.line)) {
        if (!place.used.includes(one.label)) options.push({ ...one, type: "keyword", apply: `${one.label}: ` });
      }
    }
    if (place.inValue || place.path.at(-1) === "-") {
      for (const [value, help] of part.v ?? []) options.push({ label: value, type: "enum", info: help || undefined });
      for (const one of names(part.k, words, place.line)) options.push({ ...one, type: holder ? "variable" : "constant" });
    }
    if (!options.length) return null;
    if (!context.explicit && from === context.pos && !context.matchBefore(/[:[{,-] $/)) return null;
    return { from, options, validFor: holder ? /^\{[\w?]*\}?$/ : /^[\w/.-]*$/ };
  };
}

function applied(name, field, place) {
  if (place.flow) return `${name}: `;
  if (field.i?.f) return snippet(`${name}:\n  - \${}`);
  if (field.f && !field.i) return snippet(`${name}:\n  \${}`);
  return `${name}: `;
}
