"""Transformers from tensors to tensors: scaling, confounds, folding, masks, crops, sizes, lengths and views."""
