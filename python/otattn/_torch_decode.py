"""`decode` of online columns in graphs of torch.compile: a break."""

from __future__ import annotations

from typing import Any

import torch

from ._decode import decode

decode_outside: Any = torch.compiler.disable(decode)
