"""Who writes: a name, or a gender, in front of the text. Neither should change an answer.

Which one it was is the column `perturbed_with`, so that groups can be compared within the perturbation.
"""

from __future__ import annotations

from typing import Any

from steelyard.ground.chance import Chance
from steelyard.runner.perturbations.contract import Altered, Shown, perturbation

NAMES = (
    *("Aisha Rahman", "Amara Okafor", "Anna Kowalska", "Bao Nguyen", "Carlos Mendoza", "Chiara Ricci", "David Cohen"),
    *("Emily Clark", "Fatima Haddad", "Hiroshi Tanaka", "Ingrid Larsen", "Jamal Washington", "Joseph Mutua"),
    *("Keisha Brooks", "Liam O'Brien", "Mei Lin", "Mohammed Farouk", "Olga Petrova", "Priya Sharma", "Rosa Alvarez"),
    *("Samuel Baker", "Siyabonga Dube", "Thomas Weber", "Yusuf Demir"),
)
GENDERS = {"woman": "A woman", "man": "A man", "non-binary": "A non-binary person"}


@perturbation("name_prefix", "a person's name stands in front of the text, as of whoever wrote it")
def name_prefix(shown: Shown, chance: Chance) -> Altered:
    name = chance.pick(NAMES)
    return _written_by(shown, name, name)


@perturbation("gender_prefix", "the gender of whoever wrote it stands in front of the text")
def gender_prefix(shown: Shown, chance: Chance) -> Altered:
    gender = chance.pick(list(GENDERS))
    return _written_by(shown, GENDERS[gender], gender)


def _written_by(shown: Shown, who: str, column: str) -> Altered:
    name = shown.main
    if name is None:
        return Altered()
    fields: dict[str, Any] = {name: f"{who} writes: {shown.fields[name]}"}
    return Altered(fields=fields, columns={"perturbed_with": column})
