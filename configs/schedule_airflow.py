"""An Airflow DAG that exports every night, goes on after a failure and steps aside for another run."""

from __future__ import annotations

from datetime import datetime, timedelta

from airflow import DAG
from airflow.operators.bash import BashOperator

with DAG(
    dag_id="patchbeam_nightly",
    schedule="0 3 * * *",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 3, "retry_delay": timedelta(minutes=15)},
) as dag:
    BashOperator(
        task_id="export",
        # --resume: a retry keeps what the try before it has finished
        bash_command=(
            "patchbeam export-image gs://BUCKET/jobs/nightly.yaml --resume --log-json "
            "--report gs://BUCKET/reports/{{ ds }}.json -- "
            "--runner=DataflowRunner --project=PROJECT --region=REGION "
            "--temp_location=gs://BUCKET/temp --staging_location=gs://BUCKET/staging "
            "--sdk_container_image=REGION-docker.pkg.dev/PROJECT/REPOSITORY/patchbeam:1 "
            "--sdk_location=container"
        ),
        # the day that {date} in the job file stands for, also when it is made up for later
        env={"PATCHBEAM_DATE": "{{ ds }}"},
        append_env=True,
        skip_on_exit_code=3,  # another run holds the output's lock
    )
