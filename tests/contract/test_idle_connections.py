"""Connections that stay open for longer than the minute after which proxies let go of theirs."""

import http.client
import time

import pytest


@pytest.mark.slow
def test_a_connection_is_used_again_after_sixty_five_idle_seconds(stub_server):
    host = stub_server.http.base_url
    connection = http.client.HTTPConnection(host.host, host.port or 80, timeout=10)
    # A connection that was closed fails, and is not opened anew.
    connection.auto_open = 0
    connection.connect()
    for pause in (0, 65):
        time.sleep(pause)
        connection.request("GET", "/healthz")
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (200, b'{"ok":true}')
    connection.close()
