"""English function words, for finding keywords between them (text/keywords.py); retrieval itself leaves none out.

Compiled for acclimate by word class from general knowledge of English (no published list was copied) and, like all of
acclimate, under Apache-2.0. About the kind and size of what the SMART system's list made usual: articles, pronouns,
prepositions, conjunctions, auxiliary verbs, and adverbs and light verbs that carry no subject. Contractions stand in it
whole, as text/keywords.py reads them.
"""

from __future__ import annotations

_DETERMINERS = """
a an the this that these those each every either neither both all any some no none such several few fewer many much
more most less least enough another other others same own certain various one ones two first second last next whole
half
"""
_PRONOUNS = """
i me my mine myself we us our ours ourselves you your yours yourself yourselves he him his himself she her hers
herself it its itself they them their theirs themselves who whom whose which what whoever whomever whatever whichever
someone somebody something anyone anybody anything everyone everybody everything nobody nothing oneself
"""
_PREPOSITIONS = """
about above across after against along alongside amid among amongst around as at before behind below beneath beside
besides between beyond by concerning despite down during except for from in inside into like near of off on onto
opposite out outside over past per regarding round since through throughout till to toward towards under underneath
unlike until unto up upon versus via with within without
"""
_CONJUNCTIONS = """
and or but nor so yet if then else because although though while whereas whether unless lest once than when whenever
where wherever why how however hence therefore thus thereby therein thereof whereby wherein whereupon moreover
furthermore nevertheless nonetheless otherwise instead meanwhile albeit etc eg ie
"""
_AUXILIARIES = """
am is are was were be been being have has had having do does did doing done can could cannot may might must shall
should will would ought need needs dare used let lets become becomes became becoming ain't aren't isn't wasn't weren't
haven't hasn't hadn't don't doesn't didn't can't couldn't mightn't mustn't shan't shouldn't won't wouldn't needn't i'm
i've i'd i'll you're you've you'd you'll he's he'd he'll she's she'd she'll it's it'd it'll we're we've we'd we'll
they're they've they'd they'll that's that'll there's here's what's who's where's how's let's
"""
_ADVERBS = """
not also only just even still again already always never ever often sometimes seldom rarely usually soon now today
here there anywhere everywhere somewhere nowhere very too quite rather almost nearly merely mostly mainly largely
partly fully really simply especially particularly specifically generally typically commonly currently recently
previously later early earlier finally initially respectively accordingly consequently subsequently similarly likewise
indeed perhaps maybe possibly probably certainly apparently clearly actually basically essentially approximately
roughly relatively highly well better best further together apart away back forth ago afterwards thereafter anyway
"""
_VERBS = """
say says said saying get gets got getting gotten give gives given giving gave go goes going gone went come comes
coming came make makes made making take takes taken taking took see sees seen seeing saw seem seems seemed seeming
appear appears appeared know known knows knew think thinks thought want wants wanted try tries tried trying keep keeps
kept put puts tell tells told ask asks asked show shows showed shown use uses using consider considers considered
considering include includes included including follow follows followed following concern concerns concerned contain
contains contained containing provide provides provided providing regard regards regarded allow allows allowed based
due according able unable
"""

ENGLISH = frozenset(
    word
    for group in (_DETERMINERS, _PRONOUNS, _PREPOSITIONS, _CONJUNCTIONS, _AUXILIARIES, _ADVERBS, _VERBS)
    for word in group.split()
)
