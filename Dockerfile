# Quartermaster in a container: nothing but Python, the program and its dependencies; no compiler,
# no secret, no superuser. Its root file system may be read-only, with a tmpfs at /tmp and a volume
# for the socket at /run/quartermaster. compose.yaml shows it at work.

FROM python:3.13-slim-bookworm AS build
WORKDIR /src
COPY setup.cfg setup.py wsgi.py README.rst LICENSE ./
COPY app app
COPY config config
RUN python -m venv /opt/quartermaster \
    && /opt/quartermaster/bin/pip install --no-cache-dir --disable-pip-version-check .

FROM python:3.13-slim-bookworm
# A number, so that whoever runs it can see that it is not the superuser's.
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
# gunicorn ends in peace on SIGTERM; on SIGINT it would leave at once.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s --retries=3 \
    CMD ["python", "/opt/quartermaster/healthcheck.py"]
CMD ["quartermaster", "serve"]
