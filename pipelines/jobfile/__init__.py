"""Job files: read, checked whole, with errors that name the key."""

from pipelines.jobfile.dataset_models import BuildDatasetJob
from pipelines.jobfile.import_models import ImportImageJob
from pipelines.jobfile.load import load_job, read_job_mapping
from pipelines.jobfile.models import JOBS, ExportImageJob
from pipelines.jobfile.table_models import ExportTableJob, ImportTableJob

__all__ = [
    "JOBS",
    "BuildDatasetJob",
    "ExportImageJob",
    "ExportTableJob",
    "ImportImageJob",
    "ImportTableJob",
    "load_job",
    "read_job_mapping",
]

JOBS["import-image"] = ImportImageJob
JOBS["export-table"] = ExportTableJob
JOBS["import-table"] = ImportTableJob
JOBS["build-dataset"] = BuildDatasetJob
