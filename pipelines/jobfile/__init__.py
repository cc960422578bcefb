"""Job files: read, checked whole, with errors that name the key."""

from pipelines.jobfile.load import load_job, read_job_mapping
from pipelines.jobfile.models import JOBS, ExportImageJob

__all__ = ["JOBS", "ExportImageJob", "load_job", "read_job_mapping"]
