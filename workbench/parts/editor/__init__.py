"""The editor of a pack's text: CodeMirror in one built file, mounted as a component."""
