"""An evaluation as files for people and for CI: JUnit XML, Markdown, one HTML page."""
