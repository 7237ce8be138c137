"""A task of another package: does a word end in a vowel? No file of regard refers to it."""
