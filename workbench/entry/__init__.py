"""The script that Streamlit runs, in a folder of its own: it takes a folder `pages` beside it for its."""
