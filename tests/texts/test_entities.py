"""What a text mentions: names, synonyms, plurals, misspellings, short forms, and their context."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from steelyard.texts.abbreviations import ambiguous
from steelyard.texts.entities import extractor
from steelyard.texts.lexicon import lexicon as lexicon_of


def mentioned(text: str) -> str:
    return "; ".join(f"{mention.context} {mention.entry.name}" for mention in extractor().findings(text).mentions)


CASES = {
    "Do not continue venlafaxine; lithium with olanzapine": (
        "negated venlafaxine; asserted lithium; asserted olanzapine"
    ),
    "Did not receive heparin": "negated heparin",
    "Was not treated with warfarin": "negated warfarin",
    "Does not require dialysis": "negated hemodialysis",
    "No fever and received heparin": "negated fever; asserted heparin",
    "No fever, chills, or cough. Has rash.": "negated fever; negated chills; negated cough; asserted rash",
    "Denies chest pain but reports palpitations.": "negated chest pain; asserted palpitations",
    "Patient denies any shortness of breath, orthopnea, or PND.": (
        "negated dyspnea; negated orthopnea; negated paroxysmal nocturnal dyspnea"
    ),
    "Pneumonia and PE were ruled out.": "negated pneumonia; negated pulmonary embolism",
    "PE unlikely.": "negated pulmonary embolism",
    "Cannot rule out PE.": "uncertain pulmonary embolism",
    "No change in chronic kidney disease.": "asserted chronic kidney disease",
    "Gram-negative bacteremia": "asserted bacteremia",
    "Mother reports fever and cough for 3 days.": "asserted fever; asserted cough",
    "Father died of colon cancer; patient has IBS.": "family colon cancer; asserted irritable bowel syndrome",
    "No family history of breast cancer.": "family breast cancer",
    "Possible sepsis versus dehydration.": "uncertain sepsis; uncertain dehydration",
    "Start aspirin, avoid ibuprofen.": "asserted aspirin; negated ibuprofen",
    "Metformin was discontinued and insulin started.": "negated metformin; asserted insulin",
    "Stop lisinopril; start losartan": "negated lisinopril; asserted losartan",
    "Allergic to penicillin and sulfa.": "negated penicillin; negated sulfonamides",
    "Blood cultures negative.": "asserted blood culture",
    "Not only asthma but also COPD": "asserted asthma; asserted chronic obstructive pulmonary disease",
    "History of MI in 2015, now with unstable angina": "historical myocardial infarction; asserted unstable angina",
    "65 y/o F w/ h/o afib on warfarin c/o melena": "historical atrial fibrillation; asserted warfarin; asserted melena",
    "45-year-old man without diabetes presents with hyperglycemia": "negated diabetes mellitus; asserted hyperglycemia",
    "There is no doubt that this is appendicitis": "asserted appendicitis",
    "The patient has no history of stroke.": "negated stroke",
    "Rule out DVT": "uncertain deep vein thrombosis",
    "If symptoms worsen, consider pulmonary embolism": "hypothetical pulmonary embolism",
    "Risk factors for stroke include hypertension": "hypothetical stroke; hypothetical hypertension",
    "Given fever and cough, likely pneumonia": "asserted fever; asserted cough; uncertain pneumonia",
    "Crohn's disease flare with abdominal pain": "asserted crohn disease; asserted abdominal pain",
    "Parkinson disease": "asserted parkinson disease",
    "hyperension and diabetis melitus type 2": "asserted hypertension; asserted type 2 diabetes mellitus",
    "SpO2 92% on RA. RA flare with joint swelling": (
        "asserted oxygen saturation; asserted rheumatoid arthritis; asserted joint swelling"
    ),
    "MS with optic neuritis; MS change overnight": (
        "asserted multiple sclerosis; asserted optic neuritis; asserted altered mental status"
    ),
    "CVA tenderness present, no CVA": "asserted costovertebral angle tenderness; negated stroke",
    "PE: lungs clear, no wheezes": "negated wheezing",
    "Assessment: PE": "asserted pulmonary embolism",
    "Family History: asthma, diabetes. Social History: smoker with COPD.": (
        "family asthma; family diabetes mellitus; asserted chronic obstructive pulmonary disease"
    ),
    "Type II diabetes mellitus, non-insulin-dependent": "asserted type 2 diabetes mellitus",
    "No evidence of acute intracranial hemorrhage, mass effect or midline shift": "negated intracranial hemorrhage",
    "afebrile, anicteric": "negated fever; negated jaundice",
    "patient with AIDS uses hearing aids": "asserted acquired immunodeficiency syndrome",
    "not febrile": "negated fever",
    "ST depression and depression": "asserted st segment depression; asserted depression",
    "Chest X-ray shows no infiltrate, consistent with bronchitis": "asserted chest x ray; asserted acute bronchitis",
    "pain free": "negated pain",
    "fever resolved": "historical fever",
    "He was ruled out for MI": "negated myocardial infarction",
    "The lungs are clear without wheezing or crackles; heart rate is regular with no murmurs": (
        "negated wheezing; negated crackles; asserted heart rate; negated heart murmur"
    ),
    "Treat with vancomycin rather than ceftriaxone": "asserted vancomycin; negated ceftriaxone",
    "NSAIDs are contraindicated.": "negated nsaids",
    "warfarin is contraindicated because of GI bleed": "negated warfarin; asserted gastrointestinal bleeding",
    "Do not give beta-blockers": "negated beta blockers",
    "no further bleeding": "negated bleeding",
    "pneumonia?": "uncertain pneumonia",
    "denies: fever, cough": "negated fever; negated cough",
    "C. diff colitis due to clindamycin": "asserted clostridioides difficile infection; asserted clindamycin",
    "s/p CABG x3": "historical coronary artery bypass graft",
    "non-ST-elevation MI": "asserted non st elevation myocardial infarction",
    "hepatitis C cirrhosis w/o ascites": "asserted hepatitis c; asserted cirrhosis; negated ascites",
    "Neither cough nor dyspnea": "negated cough; negated dyspnea",
    "E. coli UTI": "asserted urinary tract infection",
    "mother with type 2 diabetes and father with hypertension, the patient has asthma": (
        "family type 2 diabetes mellitus; family hypertension; asserted asthma"
    ),
    "He has never had a seizure": "negated seizure",
    "heart attacks, strokes and biopsies": "asserted myocardial infarction; asserted stroke; asserted biopsy",
    "Negative troponin, elevated D-dimer.": "asserted troponin; asserted d dimer",
    "hypetension": "",
}


@pytest.mark.parametrize("text", CASES)
def test_mentions_and_their_context(text: str) -> None:
    assert mentioned(text) == CASES[text]


def test_what_was_misspelt_is_shown() -> None:
    assert extractor().findings("pnuemonia, diabetis").misread == (
        "'pnuemonia' read as pneumonia",
        "'diabetis' read as diabetes",
    )


@pytest.mark.parametrize(
    "word", ["spelling", "sharing", "election", "healing", "position", "injected", "contract", "feverish"]
)
def test_plain_words_are_no_misspellings(word: str) -> None:
    assert mentioned(word) == ""


def test_a_section_lasts_until_the_next_head() -> None:
    note = "Family history: asthma.\nStroke in an aunt.\nAssessment: pneumonia\nAllergies\npenicillin\nPlan: aspirin"
    assert mentioned(note) == "family asthma; family stroke; asserted pneumonia; negated penicillin; asserted aspirin"


def test_a_wrapped_line_is_one_statement() -> None:
    note = "She was well until last week and reports no fever, chills or\ncough"
    assert mentioned(note) == "negated fever; negated chills; negated cough"
    assert mentioned("no fever\nCough") == "negated fever; asserted cough"


@given(st.text(max_size=200))
def test_any_text_can_be_read(text: str) -> None:
    findings = extractor().findings(text)
    assert all(word for word in findings.words)
    assert not findings.asserted & findings.denied


TERMS = st.sampled_from(
    [
        "pneumonia",
        "no",
        "denies",
        "fever",
        "but",
        ",",
        ".",
        "history of",
        "mother",
        "PE",
        "?",
        ":",
        "if",
        "was ruled out",
    ]
)


@given(st.lists(TERMS, max_size=30).map(" ".join))
@example("PE :")
def test_cues_in_any_order_are_read(text: str) -> None:
    found = extractor().findings(text)
    words = [".", *text.split(), "."]
    heads = sum(words[i] == "PE" and words[i - 1] == "." and words[i + 1] == ":" for i in range(1, len(words)))
    assert len(found.mentions) == sum(words.count(word) for word in ("pneumonia", "fever", "PE")) - heads


def test_every_ambiguous_form_with_a_usual_meaning_has_it_when_it_stands_alone() -> None:
    forms = [form for form in ambiguous(lexicon_of(())).values() if any(m.by_itself and m.entry for m in form.meanings)]
    assert len(forms) > 20
    for form in forms:
        usual = next(meaning.entry for meaning in form.meanings if meaning.by_itself)
        said = form.form.upper() if form.capitals else form.form
        assert [mention.entry for mention in extractor().findings(said).mentions] == [usual], said
