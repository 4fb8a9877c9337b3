"""The methods by name: each module has a `Recipe` and a function `adapt`."""

from types import ModuleType

from acclimate.methods import finetune, mlm, scratch, tapter, tlm

METHODS: dict[str, ModuleType] = {"finetune": finetune, "mlm": mlm, "scratch": scratch, "tapter": tapter, "tlm": tlm}
