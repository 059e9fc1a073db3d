"""A server with the real S3 API (moto's), in a process of its own, on loopback.

Its address must be known before Spark starts, whose workers inherit the environment; so the port is reserved first, and
the socket is held until the server gets it. A port that is only looked up could be given to another process meanwhile.
"""

import os
import socket
import subprocess
import sys
from collections.abc import Mapping

__all__ = ["S3Server", "reserve", "s3_environment"]

_HOST = "127.0.0.1"
_BUCKET = "lake"


def reserve() -> socket.socket:
    """Return a socket bound to a free port, which refuses connections until a server is started with it."""
    reserved = socket.socket()
    reserved.bind((_HOST, 0))
    return reserved


def s3_environment(reserved: socket.socket) -> Mapping[str, str]:
    """Return the variables by which a client finds the server."""
    return {
        "AWS_ENDPOINT_URL": f"http://{_HOST}:{reserved.getsockname()[1]}",
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }


class S3Server:
    """The server, with one bucket."""

    def __init__(self, reserved: socket.socket) -> None:
        port, descriptor = reserved.getsockname()[1], reserved.fileno()
        # Connections wait from here on, until the server accepts them.
        reserved.listen(128)
        self._process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", "tests.pipeline.s3", str(port), str(descriptor)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[descriptor],
            env={**os.environ, "MOTO_PORT": str(port)},
        )
        reserved.close()
        import boto3  # type: ignore[import-untyped]  # Slow, and only the server needs it.

        client = boto3.client("s3", endpoint_url=f"http://{_HOST}:{port}", region_name="us-east-1")
        client.create_bucket(Bucket=_BUCKET)
        self.url = f"s3://{_BUCKET}"

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()


def main(port: str, descriptor: str) -> None:
    """Serve on a socket that listens already."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    app = DomainDispatcherApplication(create_backend_app)
    make_server(_HOST, int(port), app, threaded=True, fd=int(descriptor)).serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
