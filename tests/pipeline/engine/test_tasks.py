"""Spark tasks that run a Python function."""

from typing import NoReturn

import msgspec
from pyspark.sql import SparkSession

from tocsin.pipeline.engine.tasks import run_tasks


class Number(msgspec.Struct):
    """An assignment that cannot be part of the function that all tasks get."""

    value: int

    def __reduce__(self) -> NoReturn:
        raise TypeError("sent to all tasks")


class Answer(msgspec.Struct):
    value: int
    partition: int


def answer(given: Number) -> Answer:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    return Answer(given.value * 2, context.partitionId())


def test_each_task_gets_its_own_assignment(spark: SparkSession) -> None:
    for count in (0, 1, 7):
        found = run_tasks(spark, answer, [Number(value) for value in range(count)], Answer)
        assert [(one.value, one.partition) for one in found] == [(2 * value, value) for value in range(count)]
