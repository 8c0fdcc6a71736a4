# Quartermaster in a container: Python, the program and its dependencies, without a compiler, secrets or
# root. The root file system may be read-only, with a tmpfs at /tmp and a volume for the socket at
# /run/quartermaster, as in compose.yaml.

FROM python:3.13-slim-bookworm AS build
WORKDIR /src
ENV PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1
# Dependencies first: this layer stays in the cache until the lock file changes.
COPY requirements.lock ./
RUN python -m venv /opt/quartermaster \
    && /opt/quartermaster/bin/pip install --require-hashes -r requirements.lock
COPY setup.cfg pyproject.toml wsgi.py README.rst LICENSE ./
COPY app app
COPY config config
# The lock file has setuptools as well, so nothing else is downloaded to build the package.
RUN /opt/quartermaster/bin/pip install --no-deps --no-build-isolation .

FROM python:3.13-slim-bookworm
# A numeric id: Kubernetes' runAsNonRoot cannot check a name.
RUN groupadd --gid 10001 quartermaster \
    && useradd --uid 10001 --gid 10001 --no-create-home --shell /usr/sbin/nologin quartermaster \
    && install --directory --owner=10001 --group=10001 --mode=0750 /run/quartermaster
COPY --from=build /opt/quartermaster /opt/quartermaster
COPY deploy/healthcheck.py /opt/quartermaster/healthcheck.py
ENV PATH=/opt/quartermaster/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    QM_ENV=production \
    QM_SOCKET=/run/quartermaster/quartermaster.sock \
    QM_TRUSTED_PROXIES=1
WORKDIR /tmp
USER 10001:10001
# gunicorn stops gracefully on SIGTERM; on SIGINT it would drop running requests.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s --retries=3 \
    CMD ["python", "/opt/quartermaster/healthcheck.py"]
CMD ["quartermaster", "serve"]
