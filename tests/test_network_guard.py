import socket
from pathlib import Path

import pytest


@pytest.mark.parametrize("method", ["connect", "connect_ex"])
def test_a_connection_beyond_loopback_fails_the_test(method: str) -> None:
    with socket.socket() as client, pytest.raises(pytest.fail.Exception, match=r"192\.0\.2\.1"):
        getattr(client, method)(("192.0.2.1", 80))  # TEST-NET-1: nobody is there


def test_loopback_and_unix_sockets_are_open(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname()).close()
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        server.bind(str(tmp_path / "s"))
        server.listen()
        client.connect(str(tmp_path / "s"))
