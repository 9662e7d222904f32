"""tcp_sink.py: accepts one connection, and prints how many bytes came and in how many seconds."""
import socket
import time

listener = socket.create_server(("", 7002))
print("ready", flush=True)
connection, _ = listener.accept()
start, total = time.monotonic(), 0
while data := connection.recv(1 << 20):
    total += len(data)
print(total, time.monotonic() - start, flush=True)
