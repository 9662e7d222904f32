"""udp_sink.py SECONDS [GROUP]: prints the numbers of the datagrams that arrive until none has come for so long."""
import socket
import struct
import sys

sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
SO_RCVBUFFORCE = 33  # of Linux; Python has no name for it
sink.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 8 << 20)
sink.bind(("", 7001))
if len(sys.argv) > 2:
    sink.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP,
                    socket.inet_aton(sys.argv[2]) + socket.inet_aton("0.0.0.0"))
print("ready", flush=True)
sink.settimeout(20)
numbers = []
try:
    while True:
        data = sink.recv(2000)
        numbers.append(struct.unpack("I", data[:4])[0])
        sink.settimeout(float(sys.argv[1]))
except TimeoutError:
    print(*numbers, flush=True)
