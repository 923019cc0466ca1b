// The editor of a pack's text: what is typed goes to the draft at every pause, and nothing that was
// typed is ever replaced by what comes from there.

import { acceptCompletion, autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, redo, redoDepth, undo, undoDepth } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { bracketMatching, foldGutter, foldKeymap, indentOnInput, indentUnit } from "@codemirror/language";
import { lintGutter, lintKeymap, setDiagnostics } from "@codemirror/lint";
import { highlightSelectionMatches, search, searchKeymap } from "@codemirror/search";
import { EditorState, Prec } from "@codemirror/state";
import {
  EditorView,
  drawSelection,
  highlightActiveLine,
  highlightActiveLineGutter,
  keymap,
  lineNumbers,
  tooltips,
} from "@codemirror/view";
import { completions } from "./complete.js";
import { theme } from "./theme.js";

const PAUSE_MS = 400;
const ANSWER_MS = 8000;

let table = null;
const editors = new WeakMap();

/** Offset of a line and column, both from 1; columns count characters as Python does. */
function offsetOf(doc, line, column) {
  if (!line) return 0;
  const found = doc.line(Math.min(line, doc.lines));
  let units = 0;
  for (const character of found.text) {
    column -= 1;
    if (column < 1) break;
    units += character.length;
  }
  return found.from + units;
}

class Editor {
  constructor(parent) {
    this.client = crypto.randomUUID?.() ?? String(Math.random());
    this.seq = 0;
    this.file = null;
    this.known = 0; // revision that the text here began with, or was last kept as
    this.kept = ""; // the text of that revision
    this.flying = null; // what was sent and not answered
    this.then = null; // what is to be done once all is kept
    this.words = null;
    this.counters = {};
    this.timer = 0;
    this.overdue = 0;
    this.box = document.createElement("div");
    this.box.className = "spinf-editor";
    // The page's own shortcuts, such as a key that runs it anew, are none while one types.
    for (const name of ["keydown", "keyup", "keypress"]) {
      this.box.addEventListener(name, (event) => event.stopPropagation());
    }
    this.status = document.createElement("div");
    this.status.className = "spinf-editor-status";
    this.status.setAttribute("role", "status");
    this.status.style.cssText = "font-size:0.8rem;opacity:0.75;padding:0.25rem 0.1rem;min-height:1.4em";
    this.view = new EditorView({ parent: this.box, state: this.stateOf("") });
    this.box.append(this.status);
    parent.append(this.box);
    this.leave = () => this.flush();
    window.addEventListener("pagehide", this.leave);
    document.addEventListener("visibilitychange", this.leave);
  }

  stateOf(text, selection) {
    return EditorState.create({
      doc: text,
      selection,
      extensions: [
        lineNumbers(),
        lintGutter(),
        foldGutter(),
        history(),
        drawSelection(),
        indentOnInput(),
        indentUnit.of("  "),
        bracketMatching(),
        closeBrackets(),
        highlightActiveLine(),
        highlightActiveLineGutter(),
        highlightSelectionMatches(),
        search({ top: true }),
        yaml(),
        autocompletion({ override: [completions(() => ({ table, words: this.words }))], icons: false }),
        tooltips({ position: "fixed" }),
        Prec.high(
          keymap.of([
            { key: "Mod-s", preventDefault: true, run: () => this.flush("save") },
            { key: "Tab", run: acceptCompletion },
            { key: "Mod-z", preventDefault: true, run: (view) => (undoDepth(view.state) ? undo(view) : this.flush("undo")) },
            { key: "Mod-y", mac: "Mod-Shift-z", preventDefault: true, run: (view) => (redoDepth(view.state) ? redo(view) : this.flush("redo")) },
          ]),
        ),
        keymap.of([
          ...closeBracketsKeymap,
          ...completionKeymap,
          ...searchKeymap,
          ...lintKeymap,
          ...foldKeymap,
          ...historyKeymap,
          ...defaultKeymap,
        ]),
        EditorView.lineWrapping,
        EditorView.contentAttributes.of({ "aria-label": this.label ?? "Text of the pack", spellcheck: "false" }),
        EditorView.updateListener.of((update) => {
          if (update.docChanged && !this.loading) this.typed();
        }),
        EditorView.domEventHandlers({ blur: () => void this.flush() }),
        theme,
      ],
    });
  }

  get text() {
    return this.view.state.doc.toString();
  }

  get store() {
    return `spinf-editor:${this.project}:${this.file}`;
  }

  /** Another text than the one here, which is kept already. */
  load(text) {
    const { main } = this.view.state.selection;
    const top = this.view.scrollDOM.scrollTop;
    const end = text.length;
    this.loading = true;
    this.view.setState(this.stateOf(text, { anchor: Math.min(main.anchor, end), head: Math.min(main.head, end) }));
    this.view.scrollDOM.scrollTop = top;
    this.loading = false;
  }

  typed() {
    this.remember();
    this.say("Typing…");
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.flush(), PAUSE_MS);
  }

  /** Keep it in this tab until it is known to be kept, also over a reload. */
  remember() {
    try {
      if (this.text === this.kept) sessionStorage.removeItem(this.store);
      else sessionStorage.setItem(this.store, JSON.stringify({ text: this.text, base: this.known, client: this.client }));
    } catch {
      // A browser without storage keeps less, and still sends at every pause.
    }
  }

  say(words) {
    if (this.status.textContent !== words) this.status.textContent = words;
  }

  flush(then = null) {
    clearTimeout(this.timer);
    if (then) this.then = then;
    if (this.file === null || !this.send || this.flying) return true;
    if (this.text === this.kept && !this.then) return true;
    this.seq += 1;
    this.flying = { seq: this.seq, text: this.text };
    const message = {
      file: this.file,
      client: this.client,
      seq: this.seq,
      base: this.known,
      writer: this.former ?? this.client,
      text: this.text,
      then: this.then,
    };
    this.then = null;
    this.former = null;
    this.send("draft", message);
    clearTimeout(this.overdue);
    this.overdue = setTimeout(() => {
      // The connection was lost, or the page's run broke off: say it again.
      this.then = message.then;
      this.flying = null;
      this.flush();
    }, ANSWER_MS);
    return true;
  }

  update(component) {
    const { data, setStateValue, parentElement } = component;
    if (!this.box.isConnected) parentElement.append(this.box);
    this.send = setStateValue;
    if (!data) return;
    this.words = data.words;
    this.box.style.setProperty("--editor-height", data.height);
    if (data.file !== this.file || data.project !== this.project) {
      if (this.file !== null) this.flush();
      this.open(data);
    } else {
      this.answer(data);
    }
    if (this.text === data.text) this.mark(data);
    this.jump(data);
  }

  open(data) {
    this.file = data.file;
    this.project = data.project;
    this.label = data.label;
    this.known = data.revision;
    this.kept = data.text;
    this.flying = null;
    this.then = null;
    this.former = null;
    clearTimeout(this.overdue);
    this.counters = { take: data.take, mine: data.mine, jump: this.counters.jump };
    this.load(data.text);
    this.view.scrollDOM.scrollTop = 0;
    this.say(data.status);
    let pending = null;
    try {
      pending = JSON.parse(sessionStorage.getItem(this.store));
    } catch {
      // Nothing that could be read was kept here.
    }
    if (pending && typeof pending.text === "string" && pending.text !== data.text) {
      // Typed here before the page was loaded anew, and not kept yet.
      this.loading = true;
      this.view.dispatch({ changes: { from: 0, to: this.view.state.doc.length, insert: pending.text } });
      this.loading = false;
      this.known = pending.base;
      this.kept = null;
      this.former = pending.client;
      this.remember();
      this.flush();
    }
  }

  answer(data) {
    const { ack } = data;
    if (this.flying && ack && ack.client === this.client && ack.seq >= this.flying.seq) {
      clearTimeout(this.overdue);
      if (ack.kept) {
        this.known = ack.revision;
        this.kept = this.flying.text;
      }
      this.flying = null;
      this.remember();
      if (ack.kept && this.text !== this.kept) this.typed();
    }
    if (data.take !== this.counters.take) {
      // The author chose the other text.
      this.counters.take = data.take;
      this.adopt(data);
    } else if (data.mine !== this.counters.mine) {
      // The author chose this one: it goes on top of the other.
      this.counters.mine = data.mine;
      this.known = data.revision;
      this.kept = data.text;
      this.flush();
    } else if (data.revision > this.known && !this.flying) {
      if (this.text === this.kept || this.text === data.text) this.adopt(data);
      else if (this.kept !== null && !data.conflict) this.flush();
    }
    if (!this.flying) {
      if (this.then) this.flush();
      else if (this.text === this.kept || data.conflict) this.say(data.status);
    }
  }

  adopt(data) {
    if (this.text !== data.text) this.load(data.text);
    this.known = data.revision;
    this.kept = data.text;
    this.remember();
    this.say(data.status);
  }

  mark(data) {
    const { doc } = this.view.state;
    const marks = data.faults.map((fault) => {
      const from = offsetOf(doc, fault.line, fault.column);
      const end = offsetOf(doc, fault.line, fault.end);
      const line = doc.lineAt(from);
      return {
        from,
        to: Math.max(end, Math.min(from + 1, line.to)),
        severity: fault.severity,
        message: fault.message,
        actions: fault.fix ? [{ name: fault.fix.label, apply: (view) => this.fix(view, fault.fix) }] : [],
      };
    });
    this.view.dispatch(setDiagnostics(this.view.state, marks));
  }

  fix(view, fix) {
    const { doc } = view.state;
    const from = offsetOf(doc, fix.line, fix.column);
    const to = offsetOf(doc, fix.line, fix.end);
    if (view.state.sliceDoc(from, to) !== fix.instead_of) return;
    view.dispatch({ changes: { from, to, insert: fix.insert }, selection: { anchor: from + fix.insert.length }, userEvent: "input.fix" });
    view.focus();
    this.flush();
  }

  jump(data) {
    if (!data.jump || data.jump.n === this.counters.jump) return;
    this.counters.jump = data.jump.n;
    const at = offsetOf(this.view.state.doc, data.jump.line, data.jump.column);
    this.view.dispatch({ selection: { anchor: at }, effects: EditorView.scrollIntoView(at, { y: "center" }) });
    this.view.focus();
  }

  close() {
    this.flush();
    clearTimeout(this.overdue);
    window.removeEventListener("pagehide", this.leave);
    document.removeEventListener("visibilitychange", this.leave);
    this.view.destroy();
    this.box.remove();
  }
}

function mount(component) {
  const parent = component.parentElement;
  if (!editors.has(parent)) editors.set(parent, new Editor(parent));
  editors.get(parent).update(component);
}

function unmount(parent) {
  editors.get(parent)?.close();
  editors.delete(parent);
}

/** Loads the editor for the small components that mount it; its table of fields comes along. */
export default function (component) {
  table = component.data?.table ?? null;
  globalThis.spinfEditor.resolve({ mount, unmount });
}

globalThis.spinfEditor ??= Promise.withResolvers?.() ?? deferred();

function deferred() {
  const made = {};
  made.promise = new Promise((resolve) => {
    made.resolve = resolve;
  });
  return made;
}
