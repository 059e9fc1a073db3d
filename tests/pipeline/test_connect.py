"""What Spark Connect asks for comes with the pipeline: it says what is missing only once somebody connects."""

from pyspark.sql.connect.utils import check_dependencies


def test_nothing_is_missing_for_connect() -> None:
    check_dependencies()
