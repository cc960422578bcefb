"""Classic sets, ready to train on: ``CIFAR10(batch_size=100)`` and the like."""

from patchbeam.data.sets.base import ImageSet, write_items
from patchbeam.data.sets.cifar import CIFAR10, CIFAR100
from patchbeam.data.sets.eurosat import EuroSAT
from patchbeam.data.sets.imagenette import Imagenette, Imagewoof
from patchbeam.data.sets.mnist import KMNIST, MNIST, FashionMNIST
from patchbeam.data.sets.pets import OxfordPets

__all__ = [
    "CIFAR10",
    "CIFAR100",
    "KMNIST",
    "MNIST",
    "SETS",
    "EuroSAT",
    "FashionMNIST",
    "ImageSet",
    "Imagenette",
    "Imagewoof",
    "OxfordPets",
    "write_items",
]

SETS: dict[str, type[ImageSet]] = {
    kind.__name__: kind
    for kind in (CIFAR10, CIFAR100, MNIST, FashionMNIST, KMNIST, Imagenette, Imagewoof, OxfordPets, EuroSAT)
}
"""Every set by name."""
