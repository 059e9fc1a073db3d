"""The overhead of Spark is measured in rounds that alternate with replays in one process."""

from bench.lab import AIMS, Measured, Timing, interleaved, overhead_pct, summary


def timing(wall_s: float) -> Timing:
    return Timing(wall_s, cpu_s=wall_s, events=1)


def test_each_round_measures_both_ways_one_after_the_other() -> None:
    measured: list[str] = []

    def measure(way: str) -> Timing:
        measured.append(way)
        return timing(len(measured))

    rounds = interleaved(lambda: measure("here"), lambda: measure("Spark"), 3)
    assert measured == ["here", "Spark"] * 3
    assert [(here.wall_s, there.wall_s) for here, there in rounds] == [(1, 2), (3, 4), (5, 6)]


def test_the_overhead_is_the_median_of_the_rounds() -> None:
    # The fastest rounds of each would give 0, and a round in which only Spark was slow 400.
    rounds = [(timing(10), timing(12.5)), (timing(10), timing(50)), (timing(20), timing(10))]
    assert overhead_pct(rounds) == 25


def test_the_tables_and_the_figures_have_both_ways() -> None:
    # The replays beside Spark count for its overhead; those that alternate with the exchange, for the rate of a replay.
    beside = [(timing(10), timing(12)), (timing(10), timing(13)), (timing(40), timing(80))]
    measured = Measured(100, 2, 5.0, [timing(2)], [timing(1)], beside, [timing(6)], [(1000, 0.5, 50, 300)])
    text, found = summary(measured)
    assert [aim.name for aim in AIMS if aim.name not in found] == []
    assert (found["replay_over_core"], found["spark_overhead_pct"], found["speedup_2_cores"]) == (0.5, 30, 2)
    lines = [line.split() for line in text.splitlines()]
    assert ["replay", "2.0", "2.0", "0"] in lines
    assert ["replay", "on", "Spark,", "one", "core", "12.0", "12.0", "0"] in lines
    assert ["replay", "on", "Spark,", "two", "cores", "6.0", "6.0", "0"] in lines


def test_a_run_without_spark_has_no_figures_of_it() -> None:
    text, found = summary(Measured(100, 2, 5.0, [timing(2)], [timing(1)]))
    assert "Spark" not in text
    assert not {"spark_overhead_pct", "speedup_2_cores", "scenario_agents_max"} & found.keys()
