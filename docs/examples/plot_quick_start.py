"""
Quick start
===========

A first model.
"""

# %%
from tensormargin.datasets import load_digits_tensor

digits = load_digits_tensor()
print(digits.data.shape)
