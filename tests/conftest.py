"""What every test shares: import paths, quiet libraries, one hypothesis profile."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from hypothesis import HealthCheck, settings

TESTS = Path(__file__).resolve().parent

for folder in (str(TESTS), str(TESTS.parent)):
    if folder not in sys.path:
        sys.path.insert(0, folder)

# Set before anything imports TensorFlow or a Google client: no start-up chatter, no GPU, and no
# search for a metadata server, which off Google Cloud only costs time.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("NO_GCE_CHECK", "true")

# No deadline: on a shared machine a slow example says nothing about the code. Derandomised where CI
# is set, so that a commit either passes or fails; the long profile goes looking for new cases.
settings.register_profile(
    "bounded",
    deadline=None,
    max_examples=40,
    derandomize=bool(os.environ.get("CI")),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("long", parent=settings.get_profile("bounded"), max_examples=300, derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "bounded"))
