"""Job files: read, checked whole, with errors that name the key."""

from pipelines.jobfile.import_models import ImportImageJob
from pipelines.jobfile.load import load_job, read_job_mapping
from pipelines.jobfile.models import JOBS, ExportImageJob

__all__ = ["JOBS", "ExportImageJob", "ImportImageJob", "load_job", "read_job_mapping"]

JOBS["import-image"] = ImportImageJob
