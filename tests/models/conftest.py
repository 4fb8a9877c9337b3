import pytest
from tests.families import FAMILIES, VOCABULARY
from transformers import BertTokenizer

from acclimate.models.encoder import save_model


@pytest.fixture(scope="session")
def tokenizer():
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words += [f"word{number}" for number in range(VOCABULARY - len(words))]
    return BertTokenizer(vocab={word: index for index, word in enumerate(words)})


@pytest.fixture
def checkpoint(tmp_path, tokenizer):
    """A directory with a small BERT and its masked language modelling head."""
    save_model(FAMILIES["bert"](), tokenizer, tmp_path / "checkpoint")
    return tmp_path / "checkpoint"
