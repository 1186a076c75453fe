"""Trained transformers: checkpoints, their tokenizers, runs of them and what is captured inside.

`library` loads the C library of models, `tokens` is a tokenizer, `session` runs a model, `capture` holds what
a run handed over, `model` puts them together as `otattn.Model`.
"""
