"""udp_echo.py: sends every datagram back."""
import socket

echo = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
echo.bind(("", 7000))
print("ready", flush=True)
while True:
    data, sender = echo.recvfrom(2000)
    echo.sendto(data, sender)
