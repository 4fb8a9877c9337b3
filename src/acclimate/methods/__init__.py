"""The methods by name: each module has a `Recipe` and a function `adapt`."""

from types import ModuleType

from acclimate.methods import dga, distil, finetune, light, mlm, scratch, sequence_contrast, tapter, tlm, token_contrast

METHODS: dict[str, ModuleType] = {
    "dga": dga,
    "distil": distil,
    "finetune": finetune,
    "light": light,
    "mlm": mlm,
    "scratch": scratch,
    "sequence_contrast": sequence_contrast,
    "tapter": tapter,
    "tlm": tlm,
    "token_contrast": token_contrast,
}
