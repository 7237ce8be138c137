"""Four marks that every vocabulary begins with, so that data, models, search and training agree without asking."""

PAD, BOS, EOS, UNK = range(4)
"""Nothing here; a target begins; a sentence ends; a token the vocabulary does not know."""

SPECIAL_TOKENS = ("<pad>", "<bos>", "<eos>", "<unk>")
"""As they are spelled, in the order of their ids."""
