"""The training side: what reads exports, and anything like them, into batches.

Needs NumPy and the record codec alone; nothing here imports Beam, GDAL, TensorFlow or torch.
"""

from patchbeam.data.adapters import as_tf, feature_spec
from patchbeam.data.arrays import ArrayDatabase, ArrayFile
from patchbeam.data.cast import cast
from patchbeam.data.collate import PadCollate, collate, pad_collate
from patchbeam.data.containers import Collatable, LabeledData, LabeledImage, SegmentedImage, make_batch
from patchbeam.data.database import Database, Spec
from patchbeam.data.dtypes import DTYPES, DType
from patchbeam.data.ensure import Resource, ensure
from patchbeam.data.epochs import Epochs
from patchbeam.data.errors import DataError, DownloadFailed, EmptyDatabase, Offline
from patchbeam.data.generated import GeneratedShapes
from patchbeam.data.loader import Loader
from patchbeam.data.loaders import register_loader
from patchbeam.data.modality import Modality
from patchbeam.data.nonuniform import NonuniformEpochs
from patchbeam.data.order import order
from patchbeam.data.packing import pack, unpack
from patchbeam.data.patches import PatchDatabase
from patchbeam.data.predictions import write_predictions
from patchbeam.data.provider import Batches, DataProvider
from patchbeam.data.randomness import Random
from patchbeam.data.recordset import RecordDatabase
from patchbeam.data.sequences import SequenceDatabase
from patchbeam.data.sets import (
    CIFAR10,
    CIFAR100,
    KMNIST,
    MNIST,
    EuroSAT,
    FashionMNIST,
    Imagenette,
    ImageSet,
    Imagewoof,
    OxfordPets,
    write_items,
)
from patchbeam.data.split import BlockParts, block_split, split
from patchbeam.data.stimuli import ImageFolder, StimuliDatabase
from patchbeam.data.stimulus import Stimulus
from patchbeam.data.tables import TableDatabase
from patchbeam.data.tensor import Tensor
from patchbeam.records.files import RecordFiles

__all__ = [
    "CIFAR10",
    "CIFAR100",
    "DTYPES",
    "KMNIST",
    "MNIST",
    "ArrayDatabase",
    "ArrayFile",
    "Batches",
    "BlockParts",
    "Collatable",
    "DType",
    "DataError",
    "DataProvider",
    "Database",
    "DownloadFailed",
    "EmptyDatabase",
    "Epochs",
    "EuroSAT",
    "FashionMNIST",
    "GeneratedShapes",
    "ImageFolder",
    "ImageSet",
    "Imagenette",
    "Imagewoof",
    "LabeledData",
    "LabeledImage",
    "Loader",
    "Modality",
    "NonuniformEpochs",
    "Offline",
    "OxfordPets",
    "PadCollate",
    "PatchDatabase",
    "Random",
    "RecordDatabase",
    "RecordFiles",
    "Resource",
    "SegmentedImage",
    "SequenceDatabase",
    "Spec",
    "StimuliDatabase",
    "Stimulus",
    "TableDatabase",
    "Tensor",
    "as_tf",
    "block_split",
    "cast",
    "collate",
    "ensure",
    "feature_spec",
    "make_batch",
    "order",
    "pack",
    "pad_collate",
    "register_loader",
    "split",
    "unpack",
    "write_items",
    "write_predictions",
]
