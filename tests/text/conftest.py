"""Three tokenizers of the kinds that encoders come with, trained on a little text, and a corpus."""

import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from acclimate.core.types import Document
from acclimate.text.corpus import write_corpus

SENTENCES = (
    "Naloxone reverses the clonidine-induced hypotension of conscious rats.",
    "In unanesthetized rats the decrease in blood pressure wasn't reversed (naloxone, 10 mg/kg).",
    "The naïve café owner didn't measure β-blockers; he measured 3,204 µg of (naloxone) twice.",
    "Hypotension: a fall in systolic pressure, [3H]-naloxone binding, and 5-HT_2A receptors.",
    "日本語の文 and 中文 stand beside Ünïcode words; 🙂 too.",
)


def wordpiece() -> PreTrainedTokenizerFast:
    raw = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    raw.normalizer = normalizers.BertNormalizer(lowercase=True)
    raw.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    raw.train_from_iterator(
        SENTENCES, trainers.WordPieceTrainer(vocab_size=130, special_tokens=special, show_progress=False)
    )
    ends = [(token, raw.token_to_id(token)) for token in ("[CLS]", "[SEP]")]
    raw.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    names = {f"{token.strip('[]').lower()}_token": token for token in special}
    return PreTrainedTokenizerFast(tokenizer_object=raw, model_max_length=16, **names)


def bytes_bpe(trim_offsets: bool = True) -> PreTrainedTokenizerFast:
    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=330, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    raw.train_from_iterator(SENTENCES, trainer)
    raw.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=trim_offsets)
    return PreTrainedTokenizerFast(
        tokenizer_object=raw, pad_token="<pad>", mask_token="<mask>", cls_token="<s>", sep_token="</s>"
    )


def unigram() -> PreTrainedTokenizerFast:
    raw = Tokenizer(models.Unigram())
    raw.normalizer = normalizers.NFKC()
    raw.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    trainer = trainers.UnigramTrainer(vocab_size=140, special_tokens=special, unk_token="<unk>", show_progress=False)
    raw.train_from_iterator(SENTENCES, trainer)
    raw.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    return PreTrainedTokenizerFast(
        tokenizer_object=raw, pad_token="<pad>", mask_token="<mask>", unk_token="<unk>", cls_token="<s>"
    )


@pytest.fixture(scope="session")
def tokenizers():
    """Kind -> tokenizer."""
    return {"wordpiece": wordpiece(), "bytes": bytes_bpe(), "bytes, untrimmed": bytes_bpe(False), "unigram": unigram()}


@pytest.fixture(scope="session")
def sentences():
    return SENTENCES


@pytest.fixture
def corpus(tmp_path):
    """A few documents of very different lengths."""
    texts = [" ".join(SENTENCES[: 1 + number % 5]) for number in range(12)] + ["\u0007", SENTENCES[0] * 6]
    return write_corpus((Document(str(number), text) for number, text in enumerate(texts)), tmp_path / "corpus")


@pytest.fixture
def tokens(corpus, tokenizers):
    return corpus.tokens(tokenizers["wordpiece"])
