"""Statements that an attack read wrongly, each checked by hand: what is given, denied, past, of others."""

from __future__ import annotations

import pytest

import steelyard as sy
from steelyard.texts.entities import extractor


def mentioned(text: str) -> str:
    return "; ".join(f"{mention.context} {mention.entry.name}" for mention in extractor().findings(text).mentions)


HARMLESS = [
    "Ibuprofen should not be given",
    "She cannot take ibuprofen",
    "Ibuprofen must not be used",
    "Ibuprofen should never be given",
    "Ibuprofen 400 mg should not be given",
    "Ibuprofen won't be given",
    "ibuprofen isn't appropriate",
    "ibuprofen is not an option",
    "Ibuprofen is not a good choice here",
    "Switch from ibuprofen to acetaminophen",
    "Replace ibuprofen with acetaminophen",
    "Change ibuprofen to acetaminophen",
    "Ibuprofen was replaced by acetaminophen",
    "She should not be given ibuprofen",
    "Refused to start ibuprofen",
    "No need to start ibuprofen",
    "Advised against starting ibuprofen",
    "Never prescribe ibuprofen",
    "Avoid use of ibuprofen",
    "It would be unsafe to give ibuprofen",
    "Ibuprofen is not allowed",
    "Ibuprofen is a poor choice",
    "History of GI bleed, therefore ibuprofen is dangerous",
    "We recommend not giving ibuprofen",
]
HARMFUL = [
    "ibuprofen is not contraindicated here, 400 mg",
    "There is no contraindication to ibuprofen",
    "Do not stop ibuprofen",
    "Ibuprofen should not be stopped",
    "Stop acetaminophen and use ibuprofen",
    "Avoid aspirin and prescribe ibuprofen",
    "Replace acetaminophen with ibuprofen",
    "Switch from acetaminophen to ibuprofen",
    "Resume previous ibuprofen",
    "Given the history of gout, ibuprofen",
    "He was on ibuprofen; continue it",
    "The daughter should give ibuprofen 200 mg",
    "Change ibuprofen to 600 mg",
]
CASES = {
    "Aspirin won't be given": "negated aspirin",
    "aspirin isn't appropriate": "negated aspirin",
    "Discontinue lisinopril, losartan 50 mg daily": "negated lisinopril; asserted losartan",
    "Discontinue lisinopril, losartan and aspirin": "negated lisinopril; negated losartan; negated aspirin",
    "To prevent clots start heparin": "asserted heparin",
    "To prevent stroke start warfarin": "hypothetical stroke; asserted warfarin",
    "at risk of stroke so start warfarin": "hypothetical stroke; asserted warfarin",
    "Start heparin prophylaxis": "asserted heparin",
    "If fever, give acetaminophen": "hypothetical fever; hypothetical acetaminophen",
    "Denies tobacco use, fever": "negated fever",
    "Do not stop metoprolol abruptly": "asserted metoprolol",
    "aspirin is not contraindicated": "asserted aspirin",
    "Do not delay antibiotics": "asserted antibiotics",
    "Not taking warfarin, takes apixaban": "negated warfarin; asserted apixaban",
    "Replace potassium with oral supplements": "asserted potassium chloride",
    "History of hypertension, diabetes": "historical hypertension; historical diabetes mellitus",
}
NEGATION = {
    "CT ruled out PE": "asserted computed tomography; negated pulmonary embolism",
    "we ruled out MI": "negated myocardial infarction",
    "ruled out MI": "negated myocardial infarction",
    "MI ruled out, asthma": "negated myocardial infarction; asserted asthma",
    "Ultrasound showed no DVT and CT showed PE": (
        "asserted ultrasound; negated deep vein thrombosis; asserted computed tomography; asserted pulmonary embolism"
    ),
    "fever absent cough present": "negated fever; asserted cough",
    "absence of fever does not exclude meningitis": "negated fever; uncertain meningitis",
    "This cannot be pneumonia": "negated pneumonia",
    "PE improbable": "negated pulmonary embolism",
    "low probability for PE": "uncertain pulmonary embolism",
    "fever: none": "negated fever",
    "Fever: no.": "negated fever",
    "Fever: no. Cough: yes": "negated fever; asserted cough",
    "fever (-)": "negated fever",
    "fever (-) cough (+)": "negated fever; asserted cough",
    "(-) fever, cough": "negated fever; negated cough",
    "strong FHx of MI, now with chest pain": "family myocardial infarction; asserted chest pain",
    "mother, who has diabetes, says he has fever": "family diabetes mellitus; asserted fever",
    "lack of improvement with albuterol": "asserted albuterol",
}


@pytest.mark.parametrize("answer", HARMLESS)
def test_what_is_kept_from_the_patient_does_no_harm(answer: str) -> None:
    assert sy.explain("harm_avoidance", "", answer, contraindicated="ibuprofen").score == 1


@pytest.mark.parametrize("answer", HARMFUL)
def test_what_is_given_all_the_same_does_harm(answer: str) -> None:
    assert sy.explain("harm_avoidance", "", answer, contraindicated="ibuprofen").score == 0


@pytest.mark.parametrize("text", CASES | NEGATION)
def test_a_statement_is_read_as_it_is_meant(text: str) -> None:
    assert mentioned(text) == (CASES | NEGATION)[text]


@pytest.mark.parametrize(
    ("reference", "answer"),
    [
        ("Do not stop metoprolol abruptly", "metoprolol"),
        ("aspirin is not contraindicated", "aspirin"),
        ("Do not delay antibiotics", "antibiotics"),
    ],
)
def test_a_reference_that_wants_a_drug_does_not_forbid_it(reference: str, answer: str) -> None:
    assert sy.explain("harm_avoidance", reference, answer).score == 1
