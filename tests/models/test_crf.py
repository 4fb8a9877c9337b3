"""The conditional random field against every sequence of tags counted out."""

import itertools

import pytest
import torch

from acclimate.models.task_layers import ConditionalRandomField

TAGS = 3
LENGTHS = torch.tensor([4, 1, 3, 0, 2])
EDGES = torch.tensor([[1, 1], [1, 1], [0, 1], [1, 1], [1, 0]])


@pytest.fixture
def crf():
    torch.manual_seed(1)
    field = ConditionalRandomField(TAGS).double()
    for weight in field.parameters():
        torch.nn.init.normal_(weight)
    return field


def emissions(seed=2):
    return torch.randn(len(LENGTHS), 4, TAGS, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def tags(seed=3):
    return torch.randint(0, TAGS, (len(LENGTHS), 4), generator=torch.Generator().manual_seed(seed))


def score(crf, emissions_WC, sequence, begins=1, ends=1):
    total = sum(emissions_WC[word, tag] for word, tag in enumerate(sequence))
    total = total + sum(crf.transitions[before, tag] for before, tag in itertools.pairwise(sequence))
    return total + begins * crf.starts[sequence[0]] + ends * crf.ends[sequence[-1]]


def sequences(length):
    return list(itertools.product(range(TAGS), repeat=length))


def counted_out(crf, emissions_BWC, tags_BW):
    values = []
    for row, length in enumerate(LENGTHS.tolist()):
        if not length:
            values.append(torch.zeros((), dtype=torch.float64))
            continue
        scores = [score(crf, emissions_BWC[row], one, *EDGES[row].tolist()) for one in sequences(length)]
        own = score(crf, emissions_BWC[row], tags_BW[row, :length].tolist(), *EDGES[row].tolist())
        values.append(own - torch.logsumexp(torch.stack(scores), dim=0))
    return torch.stack(values)


def test_the_likelihood_is_that_of_every_sequence_counted_out(crf):
    said = crf.log_likelihood(emissions(), tags(), LENGTHS, EDGES)
    torch.testing.assert_close(said, counted_out(crf, emissions(), tags()), rtol=1e-12, atol=1e-12)
    assert (said[LENGTHS > 0] < 0).all()


def test_probabilities_of_all_sequences_add_up_to_1(crf):
    every = torch.tensor(sequences(4))
    one = emissions()[:1].expand(len(every), -1, -1)
    said = crf.log_likelihood(one, every, torch.full((len(every),), 4), torch.ones(len(every), 2))
    assert said.exp().sum().item() == pytest.approx(1, abs=1e-12)


def test_gradients_are_those_of_finite_differences(crf):
    weights = [weight.detach().clone().requires_grad_() for weight in crf.parameters()]

    def likelihood(emissions_BWC, *values):
        named = dict(zip(dict(crf.named_parameters()), values, strict=True))
        arguments = (emissions_BWC, tags(), LENGTHS, EDGES)
        return torch.func.functional_call(Likelihood(crf), {f"crf.{name}": v for name, v in named.items()}, arguments)

    assert torch.autograd.gradcheck(likelihood, (emissions().requires_grad_(), *weights))


class Likelihood(torch.nn.Module):
    def __init__(self, crf):
        super().__init__()
        self.crf = crf

    def forward(self, *arguments):
        return self.crf.log_likelihood(*arguments)


def test_what_stands_in_the_padding_has_no_say_and_gets_no_gradient(crf):
    one, other = emissions(), emissions()
    other_tags = tags()
    for row, length in enumerate(LENGTHS.tolist()):
        other[row, length:] = 1e4
        other_tags[row, length:] = 0
    other.requires_grad_()
    said = crf.log_likelihood(other, other_tags, LENGTHS, EDGES)
    assert torch.equal(said, crf.log_likelihood(one, tags(), LENGTHS, EDGES))
    said.sum().backward()
    assert all(not other.grad[row, length:].any() for row, length in enumerate(LENGTHS.tolist()))
    decoded = crf.most_probable(one, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        assert torch.equal(crf.most_probable(other, LENGTHS)[row, :length], decoded[row, :length])


@pytest.mark.parametrize("barred", [False, True])
def test_the_most_probable_sequence_is_the_best_of_all(crf, barred):
    allowed = torch.ones(TAGS + 1, TAGS + 1, dtype=torch.bool)
    if barred:
        allowed[0, 1] = allowed[TAGS, 2] = allowed[2, TAGS] = allowed[1, 1] = False
    changed = 0
    for seed in range(20):
        given = emissions(seed)
        found = crf.most_probable(given, LENGTHS, allowed if barred else None)
        for row, length in enumerate(LENGTHS.tolist()):
            if length:
                legal = [one for one in sequences(length) if all(allowed[a, b] for a, b in steps(one))]
                best = max(legal, key=lambda one, row=row, given=given: score(crf, given[row], one).item())
                assert tuple(found[row, :length].tolist()) == best
                changed += best != max(sequences(length), key=lambda one, row=row: score(crf, given[row], one).item())
    assert bool(changed) == barred


def steps(sequence):
    return itertools.pairwise([TAGS, *sequence, TAGS])


def test_untrained_it_is_the_softmax_of_each_word():
    crf, words = ConditionalRandomField(TAGS), emissions().float()
    each = words.log_softmax(-1).gather(2, tags()[..., None])[..., 0]
    there = torch.arange(4) < LENGTHS[:, None]
    torch.testing.assert_close(crf.log_likelihood(words, tags(), LENGTHS, EDGES), (each * there).sum(1))
    assert torch.equal(crf.most_probable(words, LENGTHS)[there], words.argmax(-1)[there])


def test_a_rate_of_its_own_moves_its_weights_by_so_much_more_and_leaves_the_gradients_as_they_were():
    plain, fast = ConditionalRandomField(TAGS), ConditionalRandomField(TAGS, rate=100.0)
    for crf in (plain, fast):
        optimiser = torch.optim.AdamW(crf.parameters(), lr=1e-3, weight_decay=0.0)
        (-crf.log_likelihood(emissions().float(), tags(), LENGTHS, EDGES).sum()).backward()
        optimiser.step()
    for one, other, before, after in zip(
        plain.parameters(), fast.parameters(), plain.weights(), fast.weights(), strict=True
    ):
        assert torch.equal(one.grad, other.grad)
        torch.testing.assert_close(after, 100 * before)
    slow = plain.log_likelihood(emissions().float(), tags(), LENGTHS, EDGES)
    assert fast.log_likelihood(emissions().float(), tags(), LENGTHS, EDGES).sum() > slow.sum()
    best = fast.most_probable(emissions().float(), LENGTHS)
    other = ConditionalRandomField(TAGS)
    with torch.no_grad():
        for own, weight in zip(other.parameters(), fast.weights(), strict=True):
            own.copy_(weight)
    assert torch.equal(best, other.most_probable(emissions().float(), LENGTHS))


def test_scores_of_thousands_do_not_overflow():
    crf = ConditionalRandomField(TAGS)
    words = torch.tensor([[[5e4, 0.0, -5e4], [0.0, 5e4, 0.0]]])
    assert crf.log_likelihood(words, torch.tensor([[0, 1]]), torch.tensor([2]), torch.ones(1, 2)).item() == 0
