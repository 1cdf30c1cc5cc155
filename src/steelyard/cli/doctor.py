"""`steelyard doctor`: is everything there that a run-spec needs?"""

from __future__ import annotations

import os

from steelyard.cli.command import Shown, command
from steelyard.cli.options import asking, store


@command()
def doctor(*, spec: asking.Spec, place: store.Place) -> Shown:
    """Look at everything that a run-spec needs before the first paid call: data, keys, disk, servers, models.

    Every model of a server is asked one short question. Exit codes: 0 all is there, 2 the spec, 3 the data, 4 a model,
    5 the disk.
    """
    from steelyard.report.asking import diagnosis_report
    from steelyard.runner.doctor import examined
    from steelyard.runner.wire import diagnosis_document

    file = asking.loaded(spec)
    found = examined(file, os.environ, root=place.root, tenant=place.tenant, domain=place.domain)
    code = next((each.exit_code for each in found if each.exit_code), 0)
    return Shown(document=diagnosis_document(found), report=diagnosis_report(found), exit_code=code)
