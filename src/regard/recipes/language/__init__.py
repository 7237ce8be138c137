"""Language modelling: texts to learn from, runs over them, and a writer out of what was learned."""
