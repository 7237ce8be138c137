"""A task of another package: does a word end in a vowel? Nothing of it is known to regard."""
