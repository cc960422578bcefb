"""The training side: what reads exports, and anything like them, into batches.

Needs NumPy and the record codec alone; nothing here imports Beam, GDAL, TensorFlow or torch.
"""

from patchbeam.data.adapters import as_tf, feature_spec
from patchbeam.data.collate import PadCollate, collate, pad_collate
from patchbeam.data.database import Database, Spec
from patchbeam.data.epochs import Epochs
from patchbeam.data.errors import DataError, DownloadFailed, EmptyDatabase, Offline
from patchbeam.data.loader import Loader
from patchbeam.data.modality import Modality
from patchbeam.data.nonuniform import NonuniformEpochs
from patchbeam.data.order import order
from patchbeam.data.patches import PatchDatabase
from patchbeam.data.predictions import write_predictions
from patchbeam.data.provider import Batches, DataProvider
from patchbeam.data.randomness import Random
from patchbeam.data.sequences import SequenceDatabase
from patchbeam.data.split import block_split, split
from patchbeam.data.tables import TableDatabase
from patchbeam.records.files import RecordFiles

__all__ = [
    "Batches",
    "DataError",
    "DataProvider",
    "Database",
    "DownloadFailed",
    "EmptyDatabase",
    "Epochs",
    "Loader",
    "Modality",
    "NonuniformEpochs",
    "Offline",
    "PadCollate",
    "PatchDatabase",
    "Random",
    "RecordFiles",
    "SequenceDatabase",
    "Spec",
    "TableDatabase",
    "as_tf",
    "block_split",
    "collate",
    "feature_spec",
    "order",
    "pad_collate",
    "split",
    "write_predictions",
]
