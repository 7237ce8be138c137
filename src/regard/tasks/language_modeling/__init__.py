"""Language modeling: what follows a text."""
