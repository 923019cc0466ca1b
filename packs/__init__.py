"""What a question is and what answers mean. Pure Python; loads without torch."""
