"""A set of one's own: copy this file and change what is marked."""

import numpy as np

from patchbeam.data import ImageSet, Resource, Stimulus, write_items


class MySet(ImageSet):
    """Pictures of 32 × 32 pixels, a folder a class."""  # ← what it shows

    name = "my-set"  # ← its folder in the cache
    resources = (
        Resource(
            name="my-set.tar.gz",  # ← the file
            urls=("https://example.org/my-set.tar.gz",),  # ← where it is, mirrors after it
            sha256=None,  # ← 64 hexadecimal digits; None keeps in mind what comes first
        ),
    )
    normalization = ((0.5, 0.5, 0.5), (0.25, 0.25, 0.25))  # ← means and deviations, or None

    @classmethod
    def process(cls, sources, target):
        """Writes images and labels of both parts."""
        folder = sources["my-set.tar.gz"] / "my-set"  # ← the file, and what it was extracted to
        for split, part in (("training", "train"), ("validation", "test")):  # ← names of the parts
            paths = sorted((folder / part).glob("*/*.png"))  # ← the pictures
            classes = sorted({path.parent.name for path in paths})
            images = (Stimulus(path, mode="RGB").load()[np.newaxis] for path in paths)
            write_items(target / f"{split}-image.npy", (len(paths), 3, 32, 32), "uint8", images)  # ← the size
            labels = [classes.index(path.parent.name) for path in paths]
            np.save(target / f"{split}-label.npy", np.array(labels, np.int32))
