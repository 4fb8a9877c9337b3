"""The settings of each method, and METHODS: the methods by name, with all that a race is planned with.

Nothing here loads torch. The code that trains is in the file of each method, which `Method.adapt` imports.
"""

from __future__ import annotations

from acclimate.methods.method import Method
from acclimate.methods.recipes import (
    adversarial,
    dga,
    distil,
    extend,
    finetune,
    light,
    mlm,
    scratch,
    sequence_contrast,
    stilt,
    tapter,
    tlm,
    token_contrast,
    tsdae,
)

METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        mlm.METHOD,
        tapter.METHOD,
        dga.METHOD,
        light.METHOD,
        distil.METHOD,
        sequence_contrast.METHOD,
        token_contrast.METHOD,
        tsdae.METHOD,
        adversarial.METHOD,
        scratch.METHOD,
        extend.METHOD,
        tlm.METHOD,
        stilt.METHOD,
        finetune.METHOD,
    )
}
