"""udp_source.py ADDRESS COUNT: sends numbered datagrams, a few at a time."""
import socket
import struct
import sys
import time

source = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for number in range(int(sys.argv[2])):
    source.sendto(struct.pack("I", number) + bytes(60), (sys.argv[1], 7001))
    if number % 10 == 9:
        time.sleep(0.001)
