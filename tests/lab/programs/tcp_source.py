"""tcp_source.py HOST BYTES: sends so many bytes over one connection."""
import socket
import sys

with socket.create_connection((sys.argv[1], 7002)) as connection:
    connection.sendall(bytes(int(sys.argv[2])))
