"""Ports are given once: by one process, and by all of them together."""

from __future__ import annotations

import os
import socket

from crdtstream.processes.ports import BLOCK_PORTS, BLOCKS, HOST, LOWEST, Ports, is_free

EPHEMERAL = 32_768


def test_no_port_is_given_twice_by_two_owners() -> None:
    one, other = Ports(), Ports()
    try:
        given = [ports.allot() for _ in range(BLOCK_PORTS + 10) for ports in (one, other)]
    finally:
        one.release()
        other.release()
    assert len(set(given)) == len(given)
    assert all(LOWEST < port < LOWEST + BLOCKS * BLOCK_PORTS <= EPHEMERAL for port in given)


def test_a_port_that_is_taken_is_passed_over() -> None:
    ports = Ports()
    try:
        first = ports.allot()
        following = ports._left[-1]
        with socket.create_server((HOST, following)):
            assert not is_free(following)
            assert ports.allot() not in (first, following)
    finally:
        ports.release()


def test_a_forked_process_begins_with_a_block_of_its_own() -> None:
    ports = Ports()
    try:
        first = ports.allot()
        block = {(first - LOWEST) // BLOCK_PORTS}
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(writing, str(ports.allot()).encode())
            os._exit(0)
        os.waitpid(child, 0)
        other = int(os.read(reading, 100))
        os.close(reading)
        os.close(writing)
    finally:
        ports.release()
    assert block != {(other - LOWEST) // BLOCK_PORTS}


def test_a_row_of_ports_follows_its_first_and_is_given_once() -> None:
    ports = Ports()
    try:
        rows = [range(first, first + 5) for first in (ports.allot_row(5) for _ in range(6))]
        single = [ports.allot() for _ in range(BLOCK_PORTS)]
    finally:
        ports.release()
    given = [port for row in rows for port in row] + single
    assert len(set(given)) == len(given)
