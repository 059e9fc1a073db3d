"""Dependencies of Spark Connect, which it checks only on connecting."""

from pyspark.sql.connect.utils import check_dependencies


def test_nothing_is_missing_for_connect() -> None:
    check_dependencies()
