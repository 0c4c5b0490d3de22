# SPDX-License-Identifier: Apache-2.0
"""TensorFlow runs InceptionV3 with random weights: workloads/tensorflow/inception.py."""

from __future__ import annotations

from lab.places import ROOT, WORKLOADS
from lab.workloads.recipe import Recipe, Session

PYTHON = ROOT / "build" / "workloads" / "tensorflow" / "bin" / "python"


class TensorFlow(Recipe):
    """Batches through the network, in a Python environment of its own."""

    name = "tensorflow"
    title = "TensorFlow on the CPU: InceptionV3 with random weights, batches of 1 to 16 images"
    memory = "91 MB of weights that stay, tensors of 100 KB to 90 MB that die with the batch"
    programs = (str(PYTHON),)
    install = "scripts/setup.sh tensorflow (1.6 GB into build/workloads)"
    seconds = 60
    environment = {"CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "2"}  # noqa: RUF012

    def command(self, session: Session) -> list[str]:
        """The scale is the number of batches."""
        batches = session.scaled(30)
        script = str(WORKLOADS / "tensorflow" / "inception.py")
        return [str(PYTHON), script, str(batches), str(session.seed)]
