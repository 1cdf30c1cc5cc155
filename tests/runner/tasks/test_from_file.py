"""A user's own task: described in YAML next to any data, or programmed; what is wrong is said with its line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from steelyard.errors import InputError, SteelyardError, UsageError
from steelyard.records.readers import read
from steelyard.runner.tasks import DataSpec, Task, task_named, tasks
from steelyard.runner.tasks.from_file import FileTask, TaskFile, described, task_schema, variable

TASK = """\
name: triage
data: messages.csv
id: number
question: text
target: urgency
labels: [low, medium, high]
"""
DATA = """\
number,text,urgency,patient,site,age at visit,unclear,secret
1,My arm is red,low,p1,north,40,false,xxx
2,I cannot breathe, high ,p2,south,71,true,xxx
3,,low,p3,south,20,false,xxx
4,I need a form,,p3,south,20,false,xxx
5,It itches,medium,p3,north,,,xxx
"""


def file(tmp_path: Path, text: str = TASK, data: str = DATA, name: str = "my.task.yaml") -> FileTask:
    (tmp_path / "messages.csv").write_text(data)
    (tmp_path / name).write_text(text)
    task = task_named(name, tmp_path)
    assert isinstance(task, FileTask)
    return task


def refused(tmp_path: Path, text: str, kind: type[SteelyardError] = UsageError, data: str = DATA) -> str:
    with pytest.raises(kind) as caught:
        file(tmp_path, text, data).items(None, size=None, seed=0)
    return str(caught.value).replace(str(tmp_path) + "/", "")


def test_the_question_alone_is_the_prompt(tmp_path: Path) -> None:
    task = file(tmp_path)
    made = task.items(None, size=None, seed=0)
    assert [item.id for item in made.items] == [1, 2, 5]
    assert [item.target for item in made.items] == ["low", "high", "medium"]
    assert made.left_out == {"no question": 1, "no target": 1}
    assert [task.question(item) for item in made.items] == ["My arm is red", "I cannot breathe", "It itches"]
    assert task.background() == ""
    assert task.labels == ("low", "medium", "high")
    assert not task.may_decline
    assert made.sources[0].sha256


def test_everything_that_may_be_said(tmp_path: Path) -> None:
    more = (
        "prompt: |\n  Age {{ age_at_visit }}: {{ question }}\n"
        "cluster: patient\ngroups: [site]\nshould_abstain: unclear\ndirection: higher\n"
    )
    task = file(tmp_path, TASK + more)
    one, two, five = task.items(None, size=None, seed=0).items
    assert task.question(two) == "Age 71: I cannot breathe"
    assert task.question(five) == "Age not recorded: It itches"
    assert (one.cluster, one.groups, one.should_abstain) == ("p1", {"site": "north"}, False)
    assert (two.should_abstain, five.should_abstain) == (True, None)
    assert task.may_decline
    assert task.direction == "higher"
    assert not file(tmp_path, TASK + more + "decline: false\n").may_decline
    assert file(tmp_path, TASK + "decline: true\n").may_decline


def test_a_label_that_is_a_phrase_of_declining_is_one_where_nobody_may_decline(tmp_path: Path) -> None:
    data = "number,text,urgency\n1,a,low\n2,b,I don't know\n"
    task = file(tmp_path, TASK.replace("high]", "I don't know]"), data)
    assert [item.target for item in task.items(None, size=None, seed=0).items] == ["low", "I don't know"]


def test_columns_that_the_template_does_not_name_are_not_even_in_the_item(tmp_path: Path) -> None:
    task = file(tmp_path, TASK + 'prompt: "{{ question }} {{ site }}"\ncluster: patient\nshould_abstain: unclear\n')
    for item in task.items(None, size=None, seed=0).items:
        assert set(item.fields) == set(task.shown(item)) == {"question", "site"}
        assert "xxx" not in task.question(item)
        assert "xxx" not in repr(item)


def test_numbers_and_their_range(tmp_path: Path) -> None:
    text = "name: points\ndata: messages.csv\nid: nr\nquestion: q\ntarget: t\nrange: [0, 13]\n"
    task = file(tmp_path, text, "nr,q,t\na,one,1\nb,two,2.5\n")
    assert task.labels is None
    assert task.range == (0, 13)
    assert [item.target for item in task.items(None, size=None, seed=0).items] == [1, 2.5]
    assert file(tmp_path, text.replace("[0, 13]", "8")).range == (0, 8)


def test_labels_that_are_whole_numbers(tmp_path: Path) -> None:
    text = TASK.replace("[low, medium, high]", "[1, 2]")
    task = file(tmp_path, text, "number,text,urgency\n1,a,1\n2,b,2\n3,c,\n")
    assert [item.target for item in task.items(None, size=None, seed=0).items] == [1, 2]
    said = refused(tmp_path, TASK.replace("[low, medium, high]", '["1", "2"]'), data="number,text,urgency\n1,a,1\n")
    assert said == "my.task.yaml:5: target: labels are text; the column 'urgency' holds a whole number"


def test_any_format_and_another_file_of_the_same_form(tmp_path: Path) -> None:
    task = file(tmp_path)
    rows = [{"nr": n, "text": f"question {n}", "urgency": label} for n, label in enumerate(["low", "high"] * 20)]
    path = tmp_path / "other.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    made = task.items(DataSpec(path=str(path), map={"number": "nr"}, where="urgency=low"), size=5, seed=0)
    assert {item.target for item in made.items} == {"low"}
    assert len(made.items) == 5
    few = task.items(DataSpec(path=str(path), map={"number": "nr"}), size=50, seed=0)
    assert few.warnings == ("there are 40 items, fewer than the 50 asked for",)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (TASK + "lables: [a, b]\n", "my.task.yaml:7: unknown key 'lables'; did you mean 'labels'?"),
        (TASK.replace("target: urgency\n", ""), "my.task.yaml: 'target' is needed"),
        (TASK.replace("question: text", "question: 3"), "my.task.yaml:4: question: text is expected, this is a whole"),
        (TASK.replace("question: text", "question: txt"), "my.task.yaml:4: question: question needs column 'txt'"),
        (TASK + "cluster: patience\n", "did you mean 'patient'?"),
        (TASK.replace("[low, medium, high]", "[low]"), "my.task.yaml:6: labels: at least two labels"),
        (TASK.replace("[low, medium, high]", "[low, 3]"), "my.task.yaml:6: labels: at least two labels"),
        (TASK.replace("[low, medium, high]", "[low, Low]"), "my.task.yaml:6: labels: two labels differ by case"),
        (TASK.replace("[low, medium, high]", "[low, ' ']"), "my.task.yaml:6: labels: a label is empty"),
        (TASK.replace("[low, medium, high]", "[no, high]"), "my.task.yaml:6: this word means something else in YAML"),
        (
            TASK.replace("high]", "Abstain]") + "decline: true\n",
            "my.task.yaml:6: labels: a label is a phrase of declining",
        ),
        (
            TASK.replace("high]", "I don't know]") + "should_abstain: unclear\n",
            "labels: a label is a phrase of declining",
        ),
        (TASK + "range: [0, 1]\n", "my.task.yaml:7: range: is of numbers"),
        (TASK + "direction: up\n", "my.task.yaml:7: direction: one of higher, lower is expected"),
        (TASK.replace("name: triage", "name: a/b"), "my.task.yaml:1: name: a name has letters"),
        (TASK + 'prompt: "{{ question }} {{ urgency }}"\n', "my.task.yaml:7: prompt: shows the column of target"),
        (TASK + 'should_abstain: unclear\nprompt: "{{ unclear }}"\n', "my.task.yaml:8: prompt: shows the column of sh"),
        (
            TASK + 'prompt: "{{ sight }}"\n',
            "my.task.yaml:7: prompt: there is no column for 'sight'; did you mean 'site'",
        ),
        (TASK + 'prompt: "{{ text() }}"\n', "my.task.yaml:7: prompt: line 1: a prompt prints"),
        (TASK + "should_abstain: site\n", "my.task.yaml:7: should_abstain: true and false are expected"),
        (TASK.replace("target: urgency", "target: text"), "my.task.yaml:5: target: is the question's column"),
        (TASK.replace("labels: [low, medium, high]\n", ""), "my.task.yaml:5: target: labels are needed, or numbers"),
        ("- a\n", "my.task.yaml: a mapping is expected, this is a list"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path: Path, text: str, problem: str) -> None:
    assert problem in refused(tmp_path, text)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ("number,text,urgency\n1,a,low\n1,b,high\n", "messages.csv:3: number: the id is that of line 2 too"),
        ("number,text,urgency\n1,a,low\n,b,high\n", "messages.csv:3: number: a text or a whole number is expected"),
        ("number,text,urgency\n1,a,low\n2,b,urgent!\n", "messages.csv:3: urgency: is not among the task's labels"),
        ("number,text,urgency\n1,,low\n", "messages.csv: no row has both a question and a target"),
    ],
)
def test_what_is_wrong_with_data_shows_no_value(tmp_path: Path, data: str, problem: str) -> None:
    said = refused(tmp_path, TASK, InputError, data)
    assert said.startswith(problem)
    assert "urgent!" not in said


def test_a_column_that_would_be_named_like_the_target_is_out_of_reach(tmp_path: Path) -> None:
    data = "number,text,urgency,urgency label\n1,a,low,u\n"
    text = TASK.replace("target: urgency", "target: urgency label").replace("[low, medium, high]", "[u, v]")
    assert "prompt: shows the column of target" in refused(
        tmp_path, text + 'prompt: "{{ urgency_label }}"\n', data=data
    )
    assert variable("urgency label") == "urgency_label"
    assert variable("3rd-visit") == "_3rd_visit"


def test_a_question_column_that_is_called_otherwise_hides_one_that_is_called_question(tmp_path: Path) -> None:
    data = "number,text,urgency,question\n1,the text,low,high\n"
    task = file(tmp_path, TASK, data)
    assert [task.question(item) for item in task.items(None, size=None, seed=0).items] == ["the text"]
    leaking = TASK.replace("target: urgency", "target: question").replace("[low, medium, high]", "[low, high]")
    task = file(tmp_path, leaking, data)
    assert [task.question(item) for item in task.items(None, size=None, seed=0).items] == ["the text"]


def test_the_schema_says_the_same(tmp_path: Path) -> None:
    schema = task_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    whole: dict[str, Any] = {"name": "a", "data": "d", "id": "i", "question": "q", "target": "t", "labels": ["x", "y"]}
    jsonschema.validate(whole, schema)
    for wrong in ({**whole, "lables": []}, {**whole, "range": [1]}, {key: whole[key] for key in ("name", "data")}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, schema)
    assert set(schema["$defs"]["TaskFile"]["properties"]) == set(TaskFile.__struct_fields__)


def test_a_task_file_next_to_its_data_does_not_hinder_reading_it(tmp_path: Path) -> None:
    file(tmp_path, TASK, "number,text,urgency\n1,a,low\n", name="messages.task.yaml")
    records = read(tmp_path / "messages.csv", map={"item": "number", "target": "urgency"})
    assert records.task.labels == ("low", "medium", "high")


# -- programmed --------------------------------------------------------------------------------------------------------

PROGRAM = """
from steelyard.runner.tasks import Item, Items, sampled, tasks


class Sums:
    name = "sums"
    about = "small sums"
    labels = None
    spellings = {}
    may_decline = False
    range = None
    direction = None

    def items(self, data, *, size, seed):
        whole = [Item(id=n, fields={"a": n, "b": 2 * n}, target=3 * n) for n in range(20)]
        return Items(items=sampled(whole, size, seed))

    def background(self):
        return ""

    def question(self, item):
        return f"What is {item.fields['a']} + {item.fields['b']}?"

    def shown(self, item):
        return item.fields


tasks.add("sums", Sums())
"""


def test_a_python_file_adds_a_task_which_is_no_one_elses(tmp_path: Path) -> None:
    (tmp_path / "my_task.py").write_text(PROGRAM)
    before = list(tasks)
    for _ in range(2):
        task: Task = task_named("my_task.py", tmp_path)
        assert task.question(task.items(None, size=3, seed=0).items[0]).startswith("What is")
        assert list(tasks) == before


@pytest.mark.parametrize(
    ("program", "problem"),
    [
        ("x = 1\n", "my_task.py: adds 0 tasks; one is expected"),
        (PROGRAM + "tasks.add('more', Sums())\n", "my_task.py: adds 2 tasks; one is expected"),
        ("x = 1\ny = z\n", "my_task.py:2: NameError when it was run"),
        ("x = (\n", "my_task.py:1: SyntaxError when it was run"),
        ("import sys\nsys.exit(3)\n", "my_task.py:2: SystemExit when it was run"),
        (PROGRAM.replace('add("sums"', 'add("ckd_staging"'), "the task 'ckd_staging' is defined twice"),
        (PROGRAM + "1 / 0\n", "ZeroDivisionError when it was run"),
    ],
)
def test_a_python_file_that_is_no_task(tmp_path: Path, program: str, problem: str) -> None:
    (tmp_path / "my_task.py").write_text(program)
    before = list(tasks)
    with pytest.raises(UsageError) as caught:
        task_named("my_task.py", tmp_path)
    assert problem in str(caught.value)
    assert list(tasks) == before


def test_files_that_are_not_there(tmp_path: Path) -> None:
    for name in ("none.task.yaml", "none.py"):
        with pytest.raises(UsageError, match=f"{name}: cannot be read"):
            task_named(name, tmp_path)
    (tmp_path / "my.task.yaml").write_text(TASK)
    with pytest.raises(InputError, match=r"messages\.csv: cannot be read"):
        described(tmp_path / "my.task.yaml").items(None, size=None, seed=0)
