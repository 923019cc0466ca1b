// The editor's looks, from the colours of the page around it, so that both themes fit.

import { HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { EditorView } from "@codemirror/view";
import { tags } from "@lezer/highlight";

const colour = (name, otherwise) => `var(--st-${name}, ${otherwise})`;
const text = colour("text-color", "#222");
const back = colour("background-color", "#fff");
const side = colour("secondary-background-color", "#f0f2f6");
const line = colour("border-color", "#d0d3da");
const accent = colour("primary-color", "#0072B2");
const mixed = (share) => `color-mix(in srgb, ${text} ${share}%, ${back})`;

const look = EditorView.theme({
  "&": {
    color: text,
    backgroundColor: back,
    border: `1px solid ${line}`,
    borderRadius: "0.5rem",
    fontSize: "0.875rem",
    height: "var(--editor-height)",
    overflow: "hidden",
  },
  "&.cm-focused": { outline: `2px solid ${accent}`, outlineOffset: "-1px" },
  ".cm-scroller": { fontFamily: colour("code-font", "ui-monospace, monospace"), lineHeight: "1.55" },
  ".cm-content": { caretColor: text, padding: "0.5rem 0" },
  ".cm-cursor": { borderLeftColor: text },
  ".cm-gutters": { backgroundColor: side, color: mixed(65), border: "none" },
  ".cm-activeLine": { backgroundColor: `color-mix(in srgb, ${accent} 7%, transparent)` },
  ".cm-activeLineGutter": { backgroundColor: `color-mix(in srgb, ${accent} 15%, transparent)`, color: text },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": {
    background: `color-mix(in srgb, ${accent} 30%, transparent) !important`,
  },
  ".cm-matchingBracket, &.cm-focused .cm-matchingBracket": {
    backgroundColor: `color-mix(in srgb, ${accent} 25%, transparent)`,
    outline: `1px solid ${accent}`,
  },
  ".cm-nonmatchingBracket": { color: colour("red-text-color", "#b00020") },
  ".cm-panels": { backgroundColor: side, color: text, borderColor: line },
  ".cm-panel input, .cm-panel button, .cm-textfield, .cm-button": {
    background: back,
    color: text,
    border: `1px solid ${line}`,
    borderRadius: "0.25rem",
  },
  ".cm-panel.cm-search label": { fontSize: "0.8rem" },
  ".cm-tooltip": {
    backgroundColor: side,
    color: text,
    border: `1px solid ${line}`,
    borderRadius: "0.375rem",
    zIndex: 1000,
  },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li[aria-selected]": { backgroundColor: accent, color: "#fff" },
  ".cm-completionDetail": { fontStyle: "normal", opacity: 0.75 },
  ".cm-tooltip.cm-completionInfo": { maxWidth: "24rem", padding: "0.4rem 0.6rem", fontSize: "0.8rem" },
  ".cm-diagnostic": { padding: "0.4rem 0.6rem", maxWidth: "36rem", whiteSpace: "pre-wrap" },
  ".cm-diagnosticAction": { backgroundColor: accent, color: "#fff", borderRadius: "0.25rem", padding: "0.15rem 0.5rem" },
  ".cm-searchMatch": { backgroundColor: `color-mix(in srgb, ${colour("yellow-color", "#e69f00")} 40%, transparent)` },
});

const words = HighlightStyle.define([
  { tag: [tags.definition(tags.propertyName), tags.propertyName], color: colour("blue-text-color", "#0054a3"), fontWeight: "600" },
  { tag: [tags.string, tags.special(tags.string)], color: colour("green-text-color", "#177233") },
  { tag: tags.content, color: text },
  { tag: [tags.comment, tags.lineComment], color: mixed(68), fontStyle: "italic" },
  { tag: [tags.keyword, tags.typeName, tags.labelName], color: colour("violet-text-color", "#583f84") },
  { tag: [tags.punctuation, tags.separator, tags.brace, tags.squareBracket], color: mixed(70) },
]);

export const theme = [look, syntaxHighlighting(words)];
