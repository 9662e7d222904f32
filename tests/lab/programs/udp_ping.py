"""udp_ping.py HOST COUNT [LIMIT]: the round trips' times in microseconds, or "lost" for one that took longer than
the limit."""
import socket
import sys
import time

host, count, limit = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]) if len(sys.argv) > 3 else 5.0
ping = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
ping.settimeout(limit)
for _ in range(count):
    start = time.monotonic()
    ping.sendto(b"x", (host, 7000))
    try:
        ping.recv(10)
        print(f"{(time.monotonic() - start) * 1e6:.1f}")
    except TimeoutError:
        print("lost")
