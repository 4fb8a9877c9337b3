"""The methods by name: each module has a `Recipe` and a function `adapt`."""

from types import ModuleType

from acclimate.methods import (
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
)

METHODS: dict[str, ModuleType] = {
    "adversarial": adversarial,
    "dga": dga,
    "distil": distil,
    "extend": extend,
    "finetune": finetune,
    "light": light,
    "mlm": mlm,
    "scratch": scratch,
    "sequence_contrast": sequence_contrast,
    "stilt": stilt,
    "tapter": tapter,
    "tlm": tlm,
    "token_contrast": token_contrast,
}
