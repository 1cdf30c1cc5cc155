"""Makes the insurance example: policies of an imaginary insurer, and what its customers ask about them.

Everything is invented and drawn from a seeded generator. A policy covers three things, each in a circumstance of its
own and up to a sum of its own ("The policy covers bicycles in a shared cellar up to 2,300 euros."); no other policy
covers that thing in that circumstance, so a query about it has one right answer. A few general texts (a guide for the
service desk, a glossary, …) hold the words in which customers talk and answer no query.

Some policies are in plain words, as customers talk, and get in the way as the general texts do. They are asked about as
well, slightly more often than others. Without them a shift would raise even wrong answers: whatever leads away from
texts that nobody wants moves all policies up by a place.

    policies/<id>.md           the policies and the general texts
    queries-drifted.json       politeness and small talk that most queries share draw them to texts full of these:
                               one direction, which a learned shift can undo
    queries-paraphrased.json   other names, typing errors and mixed-up variants lead each query astray in its own way:
                               there is no direction to learn
    queries-shuffled.json      the drifted queries, each with the answer of another: there is nothing to learn

    python examples/insurance/make.py [--seed 7] [--policies 60] [--queries 150] [--out FOLDER]
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from random import Random
from typing import NamedTuple

TIERS = ("basic", "plus", "premium")
REGIONS = ("coastland", "highland", "lakeside", "riverdale")
FACTS = 3  # of each policy
PLAIN_EVERY = 2  # products have one policy that is written as customers talk


class Phrase(NamedTuple):
    """How policies name something, and how somebody may name it who has never read one."""

    formal: str
    odd: str


class Product(NamedTuple):
    """A kind of insurance: what it may cover, and in which circumstances."""

    name: str
    purpose: str
    things: tuple[Phrase, ...]
    circumstances: tuple[Phrase, ...]


class Fact(NamedTuple):
    """One thing in one circumstance: what exactly one policy covers."""

    thing: Phrase
    circumstance: Phrase
    limit: int

    @property
    def formal(self) -> str:
        return f"{self.thing.formal} {self.circumstance.formal}"


class Policy(NamedTuple):
    """A variant of a product."""

    product: Product
    tier: str
    region: str
    facts: tuple[Fact, ...]
    plain: bool  # written as customers talk

    @property
    def id(self) -> str:
        return f"{self.product.name}-{self.tier}-{self.region}"


Query = dict[str, str]


class Corpus(NamedTuple):
    """Documents by id, and three lists of queries about them."""

    documents: dict[str, str]
    drifted: list[Query]
    paraphrased: list[Query]
    shuffled: list[Query]


def corpus(seed: int = 7, policies: int = 60, queries: int = 150) -> Corpus:
    """The whole example, unwritten; the same for the same arguments everywhere."""
    if not len(PRODUCTS) <= policies <= MOST:
        raise ValueError(f"there can be {len(PRODUCTS)} to {MOST} policies")
    if not 2 <= queries <= FACTS * policies:
        raise ValueError(f"{policies} policies answer 2 to {FACTS * policies} queries")
    made = draw_policies(seed, policies)
    documents = {policy.id: document(seed, policy) for policy in made} | CONFUSERS
    asked = spread(Random(f"{seed}-drifted"), made, queries)
    drifted = [
        {"id": f"d{n:03d}", "text": drift(Random(f"{seed}-drifted-{n}"), policy, fact), "relevantDocId": policy.id}
        for n, (policy, fact) in enumerate(asked, 1)
    ]
    others = spread(Random(f"{seed}-paraphrased"), made, queries, last_first=True)
    paraphrased = [
        {
            "id": f"p{n:03d}",
            "text": paraphrase(Random(f"{seed}-paraphrased-{n}"), policy, fact),
            "relevantDocId": policy.id,
        }
        for n, (policy, fact) in enumerate(others, 1)
    ]
    check(documents, asked + others)
    found = dict(sorted(documents.items()))
    return Corpus(found, drifted, paraphrased, shuffled(Random(f"{seed}-shuffled"), drifted))


# -- policies ----------------------------------------------------------------------------------------------------------


def draw_policies(seed: int, count: int) -> list[Policy]:
    """Variants of every product in turn; nothing is covered twice."""
    found = []
    for place, product in enumerate(PRODUCTS):
        draw = Random(f"{seed}-product-{product.name}")
        variants = draw.sample([(tier, region) for tier in TIERS for region in REGIONS], len(TIERS) * len(REGIONS))
        free = [(thing, circumstance) for thing in product.things for circumstance in product.circumstances]
        draw.shuffle(free)
        plain = place % PLAIN_EVERY == 0
        for tier, region in variants[: count // len(PRODUCTS) + (place < count % len(PRODUCTS))]:
            chosen: list[tuple[Phrase, Phrase]] = []
            for pair in free:
                if not any(set(pair) & set(other) for other in chosen):  # a policy names a thing or circumstance once
                    chosen.append(pair)
                if len(chosen) == FACTS:
                    break
            free = [pair for pair in free if pair not in chosen]
            limits = draw.sample(range(300, 9000, 100), FACTS)
            facts = tuple(Fact(*pair, limit) for pair, limit in zip(chosen, limits, strict=True))
            found.append(Policy(product, tier, region, facts, plain))
            plain = False
    return found


def document(seed: int, policy: Policy) -> str:
    """The text of a policy."""
    draw = Random(f"{seed}-document-{policy.id}")
    name, region = policy.product.name.capitalize(), policy.region.capitalize()
    covers = [sentence(draw.choice(COVERS), fact) for fact in policy.facts]
    excess, months = draw.randrange(50, 500, 10), draw.randint(1, 6)
    if policy.plain:
        return (
            f"# {name} insurance {policy.tier}, {region}, in plain words\n\n"
            f"{' '.join(draw.choice(pool) for pool in PLAIN)} {' '.join(covers)} You bear {excess} euros yourself.\n"
        )
    return (
        f"# {name} insurance {policy.tier}, {region}\n\n"
        f"This policy insures {policy.product.purpose} in {region}. {' '.join(covers)}\n\n"
        f"{draw.choice(EXCLUSIONS)} The policyholder bears an excess of {excess} euros per loss; "
        f"notice is given {months} {'month' if months == 1 else 'months'} before renewal.\n"
    )


def sentence(pattern: str, fact: Fact) -> str:
    made = pattern.format(fact=fact.formal, limit=f"{fact.limit:,}")
    return made[0].upper() + made[1:]


# -- queries -----------------------------------------------------------------------------------------------------------


def spread(draw: Random, policies: list[Policy], count: int, *, last_first: bool = False) -> list[tuple[Policy, Fact]]:
    """So many facts, as evenly from all policies as can be; what is over goes to those in plain words."""
    rounds = range(FACTS)[::-1] if last_first else range(FACTS)
    order = []
    for place in rounds:
        turn = draw.sample(policies, len(policies))
        turn.sort(key=lambda policy: not policy.plain)  # else in random order
        order += [(policy, policy.facts[place]) for policy in turn]
    return draw.sample(order[:count], count)


def drift(draw: Random, policy: Policy, fact: Fact) -> str:
    """The policy's own words, drowned in small talk."""
    talk = [draw.choice(pool) if draw.random() < CHATTY else "" for pool in SMALL_TALK]
    asked = draw.choice(ASKING).format(fact=fact.formal, product=policy.product.name, region=policy.region.capitalize())
    made = " ".join(part for part in (*talk[:-1], asked, talk[-1]) if part)
    return made[0].upper() + made[1:]


def paraphrase(draw: Random, policy: Policy, fact: Fact) -> str:
    """Few words, of which some are other ones, some are misspelt, and some belong to another variant."""
    thing, circumstance = fact.thing.formal, fact.circumstance.formal
    if draw.random() < 0.5:
        thing = fact.thing.odd
    else:
        circumstance = fact.circumstance.odd
    tiers = [policy.tier, draw.choice([tier for tier in TIERS if tier != policy.tier])]
    regions = [policy.region, draw.choice([region for region in REGIONS if region != policy.region])]
    draw.shuffle(tiers)
    draw.shuffle(regions)
    words = draw.choice(TERSE).format(
        thing=thing,
        circumstance=circumstance,
        product=policy.product.name,
        tiers=" or ".join(tiers),
        regions=" or ".join(regions),
    )
    return misspelt(draw, words)


def misspelt(draw: Random, text: str) -> str:
    """Two words of the text with a letter dropped, doubled or swapped with the next."""
    words = text.split(" ")
    long = [place for place, word in enumerate(words) if len(word) > 4 and word.isalpha()]
    for place in draw.sample(long, min(2, len(long))):
        word, at = words[place], draw.randrange(1, len(words[place]) - 2)
        words[place] = draw.choice(
            (
                word[:at] + word[at + 1 :],
                word[: at + 1] + word[at:],
                word[:at] + word[at + 1] + word[at] + word[at + 2 :],
            )
        )
    return " ".join(words)


def shuffled(draw: Random, queries: list[Query]) -> list[Query]:
    """The same queries with the same answers, of which none belongs to its query."""
    own = [query["relevantDocId"] for query in queries]
    given = draw.sample(own, len(own))
    for place in range(len(own)):
        if given[place] == own[place]:  # swap with one that makes neither of the two right
            other = draw.choice([at for at in range(len(own)) if given[at] != own[place] and own[at] != given[place]])
            given[place], given[other] = given[other], given[place]
    assert all(a != b for a, b in zip(own, given, strict=True))
    assert sorted(own) == sorted(given)
    return [
        {**query, "id": f"s{query['id'][1:]}", "relevantDocId": id} for query, id in zip(queries, given, strict=True)
    ]


def check(documents: dict[str, str], asked: list[tuple[Policy, Fact]]) -> None:
    """Every query has one answer: its policy alone says what it asks for, and no two things go by the same name."""
    texts = {id: text.lower() for id, text in documents.items()}
    for policy, fact in asked:
        holders = [id for id, text in texts.items() if fact.formal.lower() in text]
        assert holders == [policy.id], (fact.formal, holders)
    names = [name.lower() for product in PRODUCTS for thing in product.things for name in thing]
    assert len(names) == len(set(names)), sorted(name for name in names if names.count(name) > 1)
    for product in PRODUCTS:
        places = [name.lower() for circumstance in product.circumstances for name in circumstance]
        assert len(places) == len(set(places)), product.name
    for id in CONFUSERS:
        assert not [name for name in names if f" {name} " in texts[id]], id


# -- words -------------------------------------------------------------------------------------------------------------


def phrases(text: str) -> tuple[Phrase, ...]:
    """One phrase a line: formal, a bar, odd."""
    return tuple(Phrase(*(part.strip() for part in line.split("|"))) for line in text.strip().splitlines())


PRODUCTS = (
    Product(
        "household",
        "the contents of a home",
        phrases("""
            bicycles | pushbikes
            jewellery | rings and necklaces
            musical instruments | my cello
            oil paintings | framed artwork
            carpets | rugs
            wardrobes and beds | bedroom furniture
            porcelain | china dishes
            freezer contents | spoilt frozen meals
        """),
        phrases("""
            in a shared cellar | downstairs where all tenants keep boxes
            during a house move | while the removal van was loaded
            in a garden shed | out back in the wooden hut
            after a burst pipe | plumbing gave way and soaked everything
            after lightning | thunderstorm strike
            taken by burglars | intruders broke in
            in a student room | at my daughter's campus digs
        """),
    ),
    Product(
        "motor",
        "cars and motorcycles registered",
        phrases("""
            windscreens | cracked front glass
            tyres | flat rubber
            catalytic converters | exhaust part sawn off
            child seats | baby carrier
            roof boxes | luggage coffin on top
            key replacement | lost fob
            paintwork | scratched bodywork
            batteries of electric cars | EV power pack
        """),
        phrases("""
            damaged by martens | chewed by a small animal
            in a multi-storey garage | parked on level four
            after a collision with deer | hit a stag
            during a hailstorm | ice balls from above
            on a racing circuit | lapping the track
            while lent to a relative | my cousin drove
            on a car ferry | aboard the ship crossing
        """),
    ),
    Product(
        "travel",
        "journeys that begin",
        phrases("""
            suitcases | checked bags
            missed flights | plane left without us
            rebooked hotel nights | extra lodging
            ski passes | lift tickets
            passports | identity booklet
            rescue by helicopter | airlifted off
            rental cameras | hired photo gear
            cancelled cruises | called-off voyage
        """),
        phrases("""
            because of a volcanic eruption | ash cloud
            after an illness of a grandparent | granny fell sick
            during a rail strike | trains stood still, unions
            on an island | surrounded by sea
            in the off-season | November, everything shut
            with a tour operator in insolvency | agency went bankrupt
            above 3,000 metres | very high up a mountain
        """),
    ),
    Product(
        "liability",
        "claims of third parties against residents",
        phrases("""
            broken spectacles | somebody's eyewear crushed
            scratched parquet | wooden floor gouged
            lost office keys | employer's door opener gone
            spilled drinks on laptops | coffee over a notebook computer
            shattered shop displays | vitrine smashed
            injuries of pedestrians | walker hurt
            flooded neighbouring flats | water dripped next door
            torn evening clothes | ripped tuxedo
        """),
        phrases("""
            caused by children under seven | our toddler did it
            caused while volunteering | unpaid work at the parish
            caused by a drone | flying gadget crashed
            caused on an icy pavement | slippery frozen walkway
            caused during a sports match | football game
            caused as a favour to friends | helping pals out
            caused by a falling flowerpot | geranium from the balcony
        """),
    ),
    Product(
        "dental",
        "the teeth of persons who live",
        phrases("""
            ceramic crowns | white cap
            titanium implants | screwed-in artificial root
            root canal treatment | nerve removed
            orthodontic braces | wire straightening
            professional cleaning | tartar scraped
            wisdom tooth removal | back molars pulled
            night guards | grinding splint
            composite fillings | hole plugged
        """),
        phrases("""
            under general anaesthesia | completely put to sleep
            following a cycling fall | came off two wheels
            for pupils and apprentices | my teenager
            at a university clinic | treated by trainee doctors
            during pregnancy | expecting a baby
            in patients with diabetes | high blood sugar
            by a dentist across the border | foreign practice
        """),
    ),
    Product(
        "pet",
        "dogs, cats and small animals kept",
        phrases("""
            hip operations | new joint
            vaccinations | annual jabs
            allergy tests | why she itches
            chemotherapy | cancer drugs
            boarding kennels | someone to mind him overnight
            microchipping | tag under the skin
            behavioural training | lessons against biting
            prescription diets | special kibble
        """),
        phrases("""
            for dogs over ten years | elderly hound
            for indoor cats | feline that never goes out
            for rabbits and guinea pigs | rodents in a hutch
            for rescued animals | adopted from a shelter
            for hunting dogs | retriever used with guns
            for breeding animals | litters every spring
            for parrots | talking bird
        """),
    ),
    Product(
        "legal",
        "disputes before the courts",
        phrases("""
            lawyers' fees | attorney bill
            expert witnesses | specialist's opinion
            mediation | neutral go-between
            court translators | interpreter
            bail loans | money to stay out of jail
            appeals | second instance
            debt enforcement | bailiff sent round
            notarised deeds | stamped papers
        """),
        phrases("""
            in tenancy disputes | landlord trouble
            in employment matters | sacked by my boss
            in inheritance quarrels | siblings and the will
            in neighbour conflicts | hedge and noise next door
            in divorce proceedings | splitting from my wife
            in traffic offences | speeding ticket
            in disputes with builders | botched extension
        """),
    ),
    Product(
        "boat",
        "sailing and motor vessels moored",
        phrases("""
            outboard engines | motor at the stern
            torn sails | ripped canvas
            broken masts | snapped pole
            inflatable dinghies | rubber tender
            navigation electronics | plotter and radar
            anchors and chains | heavy hook
            wreck salvage | raising what sank
            teak decks | wooden planks underfoot
        """),
        phrases("""
            in winter storage | laid up from December
            on a trailer | towed along the motorway
            during a regatta | sailing contest
            in a tidal harbour | where water falls twice daily
            after striking driftwood | floating log
            under charter | rented to strangers
            in thick fog | could see nothing
        """),
    ),
    Product(
        "landlord",
        "let houses and flats",
        phrases("""
            unpaid rent | tenant owes months
            eviction costs | throwing them out
            graffiti removal | spray paint scrubbed
            blocked drains | clogged sewer
            boiler repairs | no hot water
            roof tiles | shingles blown off
            lift failures | elevator stuck
            replacement locks | new cylinders
        """),
        phrases("""
            in listed buildings | protected heritage
            in furnished lets | sofa and bed included
            in shared flats | five roommates
            in vacant properties | nobody inside
            in holiday homes | weekend cottage
            in shops on the ground floor | bakery below
            in newly built houses | finished last year
        """),
    ),
    Product(
        "event",
        "celebrations and gatherings held",
        phrases("""
            hired marquees | big tent
            wedding dresses | bridal gown
            catering deposits | prepaid buffet
            absent musicians | band no-show
            stage equipment | spotlights and speakers
            printed invitations | cards in the post
            firework displays | rockets and bangers
            portable toilets | mobile loos
        """),
        phrases("""
            abandoned because of heavy rain | downpour, soaked lawn
            postponed by a bereavement | death in the family
            at a castle | old fortress
            on a river barge | floating venue
            on private farmland | a friend's meadow
            for more than 500 guests | huge crowd
            relocated by the authorities | council made us switch
        """),
    ),
    Product(
        "gadget",
        "portable electronics used",
        phrases("""
            smartphones | mobile handset
            tablets | flat touchscreen slate
            smartwatches | wrist computer
            wireless headphones | bluetooth earbuds
            game consoles | playstation sort of thing
            e-book readers | digital novel device
            action cameras | helmet video recorder
            hearing aids | little ear amplifiers
        """),
        phrases("""
            dropped into water | fell in the toilet
            stolen on public transport | pickpocket in the tram
            bought second-hand | previously owned
            with a swollen accumulator | cell bulging
            left in a taxi | forgot it in the cab
            crushed by a vehicle | lorry rolled over
            infected by malware | virus inside
        """),
    ),
    Product(
        "accident",
        "bodily injuries of people employed",
        phrases("""
            physiotherapy | massages and stretching
            prosthetic limbs | artificial leg
            home helps | cleaner who comes by
            wheelchair ramps | slope to the entrance
            cosmetic surgery | fixing scars
            lump sums for invalidity | one-off payment, disabled
            hospital daily allowances | cash per ward night
            retraining courses | learning another trade
        """),
        phrases("""
            after a fall from a ladder | tumbled off the rungs
            after horse riding | thrown by my mare
            after a tick bite | little bloodsucker
            after food poisoning | bad oysters
            after a diving accident | scuba, surfaced too quickly
            after an explosion | gas bottle blew up
            after an assault | beaten by a stranger
        """),
    ),
)
MOST = len(PRODUCTS) * len(TIERS) * len(REGIONS)

COVERS = (
    "The policy covers {fact} up to {limit} euros.",
    "For {fact} the insurer pays up to {limit} euros.",
    "The sum insured for {fact} is {limit} euros.",
)
EXCLUSIONS = (
    "Intent, war and nuclear energy are excluded.",
    "Wear, gradual deterioration and intent are excluded.",
    "Losses before inception and losses by intent are excluded.",
    "Commercial use and gross negligence are excluded.",
)

CHATTY = 0.4  # how probable each piece of small talk is

# Drifted queries share these words; policies in plain words and the general texts are full of them.
SMALL_TALK = (
    ("Hi there,", "Hello there,", "Hi,"),
    ("sorry to bother you,", "sorry for the hassle,", "hope you can help me,"),
    ("quick question please:", "just a quick question:", "I just want to check something, please:"),
    ("Thanks so much for your help!", "Thank you so much!", "Thanks a lot, really appreciate your help!"),
)
ASKING = (
    "do I get any money back for {fact} on my {product} insurance in {region}?",
    "would you guys pay me something for {fact}, I have {product} insurance in {region}?",
    "how much do I get for {fact} with my {product} insurance in {region}?",
)
PLAIN = (
    ("Hi there, thanks so much for choosing us!", "Hello there, thank you so much for joining us!"),
    ("Please ask if you have any question, we really want to help.", "Sorry for any hassle, we hope to help you."),
    ("Just a quick check of how much money you get back:", "Just a quick answer to how much money you get:"),
)
TERSE = (
    "{product} {tiers}: {thing} {circumstance}",
    "{thing} {circumstance}, {product}, {regions}",
    "{product} {regions} {thing}, {circumstance}",
    "{circumstance}: {thing}, {tiers} {product}",
    "{thing}, {circumstance}",
)

CONFUSERS = {
    "guide-customer-service": """# Talking with customers

"Hi there", "hello there": whoever rings begins politely, so do likewise. Callers are sorry to bother you, sorry for the
hassle, just have a quick question, just want to check something, please, and hope you can help me, they say. Do I get
any money back, would you guys pay me something, how much do I get? Answer every question warmly: please, thank you so
much, thanks a lot, really appreciate your help. Never interrupt, never guess, repeat names slowly. Smile; people hear
it.
""",
    "faq-claims": """# Frequently asked questions

How long does it take? Ten working days, unless something is missing. Where do I send photographs? Upload them or use
stamped envelopes. How much do I get back, and when do I see any money? Adjusters decide case by case. Do you guys
answer at night? Emergencies only. Thanks for reading, hopefully this helps!
""",
    "glossary": """# Glossary

Adjuster: someone assessing damage. Beneficiary: whoever receives money. Endorsement: written amendment. Indemnity:
making good again. Underwriting: deciding which risks become accepted. Waiver: giving something up. Please ask us, just
ring, whenever another word remains unclear.
""",
    "letter-welcome": """# Welcome

Hi, hello, welcome, thank you so much! Enclosed: one card, two leaflets about data protection, one direct debit form.
Branches open on weekdays; our call centre is happy to help at weekends, please just ring. Tell friends about us; both
receive vouchers, thanks to everyone who did.
""",
    "notice-complaints": """# Complaints

Sorry that something went wrong. Write to our complaints office, we confirm receipt within two days and reply soon
afterwards. We record who was told what. Nobody gets treated worse because they complained. Independent arbitration
costs nothing. Thank you, we really appreciate hearing about any hassle.
""",
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Makes the insurance example.")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--policies", type=int, default=60)
    parser.add_argument("--queries", type=int, default=150, help="in each of the three lists")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent, metavar="FOLDER")
    given = parser.parse_args()
    try:
        made = corpus(given.seed, given.policies, given.queries)
    except ValueError as problem:
        parser.error(str(problem))
    write(made, given.out)
    sys.stderr.write(f"made {given.out}: {len(made.documents)} documents, 3 × {len(made.drifted)} queries\n")


def write(made: Corpus, folder: Path) -> None:
    """The files; policies that an earlier call wrote and this one did not draw go away, or they would answer too."""
    texts = folder / "policies"
    texts.mkdir(parents=True, exist_ok=True)
    for name in (f"{product.name}-{tier}-{region}" for product in PRODUCTS for tier in TIERS for region in REGIONS):
        if name not in made.documents:
            (texts / f"{name}.md").unlink(missing_ok=True)
    for id, text in made.documents.items():
        (texts / f"{id}.md").write_text(text, encoding="utf-8", newline="\n")
    for name in ("drifted", "paraphrased", "shuffled"):
        content = json.dumps(getattr(made, name), indent=1, ensure_ascii=False) + "\n"
        (folder / f"queries-{name}.json").write_text(content, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
