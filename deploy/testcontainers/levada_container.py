"""A Levada store for tests, by testcontainers (PyPI).

    os.environ["HADOOP_USER_NAME"] = "levada"    # who runs the store, and may do everything there
    with LevadaContainer() as store:
        client = hdfs_native.Client(store.url)

A client connects to the datanode as well, at the address that the store tells it: so ports are the same outside as in
the container, from a first one that is free.
"""

import socket

from testcontainers.core.container import DockerContainer
from testcontainers.core.waiting_utils import wait_for_logs

# Of one metadata server and one datanode: calls, HTTP; transfer, calls, HTTP.
OFFSETS = [0, 1, 10, 11, 12]


class LevadaContainer(DockerContainer):
    def __init__(self, image: str = "levada:latest", first_port: int | None = None, **kwargs):
        super().__init__(image, **kwargs)
        self.first_port = first_port or free_ports()
        for offset in OFFSETS:
            self.with_bind_ports(self.first_port + offset, self.first_port + offset)

    def start(self):
        host = self.get_container_host_ip()
        self.with_env("LEVADA_UP_PORT_BASE", str(self.first_port))
        self.with_env("LEVADA_UP_ADVERTISE", host)
        self.with_env("LEVADA_UP_DATANODES", "1")
        super().start()
        wait_for_logs(self, "Levada is ready")
        return self

    @property
    def url(self) -> str:
        return f"hdfs://{self.get_container_host_ip()}:{self.first_port}"


def free_ports() -> int:
    """A port that is free on this machine, and so are those that belong to it. Another program may be quicker."""
    while True:
        with socket.socket() as probe:
            probe.bind(("", 0))
            first = probe.getsockname()[1]
        if all(is_free(first + offset) for offset in OFFSETS):
            return first


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("", port))
        except (OSError, OverflowError):
            return False
    return True
