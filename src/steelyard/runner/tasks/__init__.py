"""Tasks: what models are asked. One file per family, `contract` says what a task is; a file of the user's is one too.

task_named("ckd_staging")
task_named("my.task.yaml", folder)  # a task that is described: `from_file`
task_named("my_task.py", folder)    # a task that is programmed; loading it runs it
task_named("clinical/chest_pain_diagnosis")  # a task of a suite: `of_suites`
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from steelyard.runner.tasks.contract import DataSpec, Item, Items, Task, answers_are, sampled, tasks

for _module in iter_modules(__path__):  # a file in this folder is known by being there
    import_module(f"{__name__}.{_module.name}")

__all__ = ["DataSpec", "Item", "Items", "Task", "answers_are", "known_tasks", "sampled", "task_named", "tasks"]


def task_named(name: str, folder: Path = Path()) -> Task:
    """The task of this name, or in the file of this name; files are looked for in `folder`."""
    from steelyard.runner.tasks.from_file import described, programmed

    if name.endswith((".yaml", ".yml")):
        return described(folder / name)
    if name.endswith(".py"):
        return programmed(folder / name)
    if "/" in name:
        from steelyard.runner.tasks.of_suites import task_of_suite

        return task_of_suite(name, folder)
    return tasks[name]


def known_tasks() -> list[Task]:
    """Every task that can be named: those of this folder, and the tasks of suites that come with the program."""
    from steelyard.runner.tasks.of_suites import tasks_of_suites

    return [*tasks.values(), *tasks_of_suites()]
