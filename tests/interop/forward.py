"""Forwards TCP connections, as Docker's proxy does: arguments are HOST, and a port each, on all addresses here."""

import socket
import sys
import threading


def pump(source: socket.socket, target: socket.socket):
    try:
        while data := source.recv(1 << 16):
            target.sendall(data)
    except OSError:
        pass
    # Whoever has said its last word may still have to hear something.
    try:
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def serve(listener: socket.socket, host: str, port: int):
    while True:
        near, _ = listener.accept()
        try:
            far = socket.create_connection((host, port), 5)
        except OSError:
            near.close()
            continue
        for ends in ((near, far), (far, near)):
            threading.Thread(target=pump, args=ends, daemon=True).start()


host = sys.argv[1]
threads = []
for port in map(int, sys.argv[2:]):
    listener = socket.create_server(("", port))
    threads.append(threading.Thread(target=serve, args=(listener, host, port)))
for thread in threads:
    thread.start()
print("forwarding", flush=True)
