"""Questions to reads, and reads back to answers."""
