// Mounts the editor as soon as its code, which is sent once and by itself, is there.
globalThis.spinfEditor ??= (() => {
  const made = {};
  made.promise = new Promise((resolve) => {
    made.resolve = resolve;
  });
  return made;
})();

export default function (component) {
  const { promise } = globalThis.spinfEditor;
  promise.then((editor) => editor.mount(component));
  return () => promise.then((editor) => editor.unmount(component.parentElement));
}
