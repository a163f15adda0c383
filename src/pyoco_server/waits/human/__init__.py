"""Questions to people: asking, answers, who may give them, notifications."""
