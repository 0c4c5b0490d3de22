# SPDX-License-Identifier: Apache-2.0
"""An image service under shifting groups of small and large images, after ASPLOS 2020."""

from __future__ import annotations

import http.client
import subprocess
import threading
from pathlib import Path

from lab.workloads.recipe import Recipe, Session, WorkloadError, built

# (share of large images, clients, requests a client)
_GROUPS = (
    (0.0, 8, 250),
    (1.0, 8, 8),
    (0.1, 24, 80),
    (0.0, 4, 250),
    (0.5, 16, 10),
    (0.0, 8, 250),
)


class Images(Recipe):
    """HTTP in front of OpenCV: workloads/images/images.cc."""

    name = "images"
    title = "an image service in C++ (HTTP and OpenCV): shifting groups of small and large images"
    memory = "pixels from 100 KB to 30 MB that die with the request, thumbnails that stay a while"
    packages = (
        *("libcpp-httplib-dev", "libopencv-imgproc-dev", "libopencv-imgcodecs-dev"),
        *("g++", "cmake", "ninja-build"),
    )
    programs = ("/usr/include/httplib.h", "/usr/include/opencv4/opencv2/imgproc.hpp", "cmake")
    seconds = 45
    good_ends = (0, -15, 143)

    def prepare(self, session: Session) -> None:
        """Synthetic pictures."""
        command = [str(built("images")), "make", str(session.folder), str(session.seed)]
        subprocess.run(command, check=True)

    def command(self, session: Session) -> list[str]:
        """The server."""
        return [str(built("images")), "serve", str(session.port)]

    def ready(self, session: Session) -> bool:
        """Whether it accepts connections."""
        connection = http.client.HTTPConnection("127.0.0.1", session.port, timeout=5)
        try:
            connection.connect()
        except OSError:
            return False
        connection.close()
        return True

    def load(self, session: Session) -> None:
        """One group after the other."""
        small, large = (sorted(session.folder.glob(f"{kind}_*")) for kind in ("small", "large"))
        for number, (share, clients, requests) in enumerate(_GROUPS):
            session.say(
                f"group {number + 1} of {len(_GROUPS)}: {share:.0%} large, {clients} clients"
            )
            crowd = [
                _Client(session, (small, large), share, session.scaled(requests), number, c)
                for c in range(clients)
            ]
            for client in crowd:
                client.start()
            for client in crowd:
                client.join()
            if faults := [client.fault for client in crowd if client.fault]:
                raise WorkloadError(f"images: {faults[0]}")
        _stop(session)


def _stop(session: Session) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", session.port, timeout=60)
    connection.request("POST", "/stop", b"")
    connection.getresponse().read()
    connection.close()


class _Client(threading.Thread):
    """Posts pictures over one connection."""

    def __init__(
        self,
        session: Session,
        pictures: tuple[list[Path], list[Path]],
        share: float,
        requests: int,
        *salt: int,
    ) -> None:
        super().__init__()
        self._session, self._pictures, self._share = session, pictures, share
        self._requests, self._random = requests, session.random(*salt)
        self._name = f"client-{salt}"
        self.fault = ""

    def run(self) -> None:
        """All requests; `fault` says what went wrong."""
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self._session.port, timeout=120)
            for _ in range(self._requests):
                self._post(connection)
            connection.close()
        except (OSError, http.client.HTTPException) as error:
            self.fault = str(error) or type(error).__name__

    def _post(self, connection: http.client.HTTPConnection) -> None:
        is_large = self._random.random() < self._share
        body = self._random.choice(self._pictures[is_large]).read_bytes()
        width, blur = self._random.choice((64, 128, 320, 640)), self._random.randint(1, 4)
        path = f"/transform?width={width}&blur={blur}"
        connection.request("POST", path, body, {"X-Client": self._name})
        response = connection.getresponse()
        response.read()
        if response.status != 200:
            self.fault = f"the service answered {response.status}"
