# One image for the workers of Dataflow and Flink and for the launcher of the Flex Template. GDAL comes with
# rasterio's wheels, so that nothing is compiled and no system package is needed.
#
#   docker build -t REGION-docker.pkg.dev/PROJECT/REPOSITORY/patchbeam:1 .
#
# The Beam of the image must be the one that submits the job: give both the same version.
ARG PYTHON=3.11
ARG BEAM=2.77.0
ARG LAUNCHER=gcr.io/dataflow-templates-base/python311-template-launcher-base

FROM ${LAUNCHER} AS launcher

FROM apache/beam_python${PYTHON}_sdk:${BEAM}
ARG BEAM
COPY --from=launcher /opt/google/dataflow/python_template_launcher /opt/google/dataflow/python_template_launcher

WORKDIR /opt/patchbeam
COPY pyproject.toml setup.py README.md LICENSE ./
COPY patchbeam patchbeam
COPY transforms transforms
COPY pipelines pipelines
RUN pip install --no-cache-dir "apache-beam==${BEAM}" ".[dataflow,vector,stac]" \
    && python -c "import rasterio, isal, crc32c, deflate; import pipelines.export_image" \
    && pip check

COPY configs/flex_launch.py /template/launch.py
ENV FLEX_TEMPLATE_PYTHON_PY_FILE=/template/launch.py
# Workers start Beam's own boot program, which the base image names as its entry point; the template's
# launcher is started by the service.
