"""What several pages draw: charts, tables, texts, words for numbers."""
