"""Token tries of questions, and the passes they are packed into."""
