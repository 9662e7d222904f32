"""udp_forger.py SECONDS: until then, or until a SIGTERM, sends packets that no job has sent to groups of tutti: random
bytes, to the ports and addresses that it sees in the kernel's list of sockets of this node, which a stranger on the
network would have to guess."""

import random
import signal
import socket
import struct
import sys
import time
from pathlib import Path

FIRST, LAST = 20000, 32000


def groups():
    """(address, port) of the sockets that are bound to a group here."""
    found = []
    with Path("/proc/net/udp").open() as sockets:
        for line in list(sockets)[1:]:
            address, port = line.split()[1].split(":")
            ip = socket.inet_ntoa(struct.pack("<I", int(address, 16)))
            if ip.startswith("239.") and FIRST <= int(port, 16) < LAST:
                found.append((ip, int(port, 16)))
    return found


def main():
    until = time.monotonic() + float(sys.argv[1])
    out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    out.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, struct.pack("=4sii", b"\0" * 4, 0, socket.if_nametoindex("eth0")))
    generator = random.Random(3)
    sent = 0
    stopped = []
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(True))
    while time.monotonic() < until and not stopped:
        for group in groups():
            out.sendto(generator.randbytes(generator.randrange(1, 1400)), group)
            sent += 1
        time.sleep(0.002)
    print(sent)


if __name__ == "__main__":
    main()
