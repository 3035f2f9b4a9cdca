# The gateway with its page and its extras, for one process and one volume. Try it, reachable from this machine only:
#   docker build -t agui-gateway .
#   docker run --rm -p 127.0.0.1:8000:8000 -e AGUI_GATEWAY__SERVER__ALLOW_UNAUTHENTICATED=true agui-gateway
# With a configuration of your own (its server.api_keys are what protects it) and with what it keeps on a volume:
#   docker run -p 8000:8000 -v ./gateway.yaml:/etc/agui-gateway/gateway.yaml:ro -v agui-gateway:/data \
#     --read-only --cap-drop ALL --security-opt no-new-privileges --stop-timeout 30 agui-gateway

FROM node:24-trixie-slim AS page
WORKDIR /build/web-demo
COPY web-demo/package.json web-demo/package-lock.json web-demo/.npmrc ./
RUN npm ci --ignore-scripts --no-audit --no-fund --no-update-notifier
COPY web-demo ./
RUN npm run build


FROM python:3.13-slim-trixie AS package
ENV PIP_CONSTRAINT=/build/constraints.txt \
    PIP_BUILD_CONSTRAINT=/build/constraints.txt \
    PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /build
RUN python -m venv /opt/agui-gateway
COPY constraints.txt pyproject.toml ./
# what it depends on changes less often than it does: a layer of its own
RUN python -c "import tomllib; p = tomllib.load(open('pyproject.toml', 'rb'))['project']; extras = p['optional-dependencies']; print(*p['dependencies'], *extras['opensearch'], *extras['otel'], sep='\n')" \
        > /build/dependencies.txt \
    && /opt/agui-gateway/bin/python -m pip install --requirement /build/dependencies.txt
COPY README.md LICENSE ./
COPY gateway gateway
COPY web-demo/build_page.py web-demo/
COPY --from=page /build/gateway/page_files gateway/page_files
# nothing is installed at run time, so the image has no pip
RUN /opt/agui-gateway/bin/python -m pip install --no-deps . \
    && /opt/agui-gateway/bin/python -m pip uninstall --yes pip


FROM python:3.13-slim-trixie
ARG VERSION=0.1.0
LABEL org.opencontainers.image.title="agui-gateway" \
      org.opencontainers.image.description="A gateway that runs agents and speaks AG-UI and its neighbours over HTTP." \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.licenses="Apache-2.0"
# Nothing is written but /data, so the root file system may be read-only. Host, port and store are the container's, over
# whatever a mounted configuration says. Without keys the gateway refuses to listen beyond loopback: see the top.
ENV PATH=/opt/agui-gateway/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    TMPDIR=/data \
    AGUI_GATEWAY__SERVER__HOST=0.0.0.0 \
    AGUI_GATEWAY__SERVER__PORT=8000 \
    AGUI_GATEWAY__STORE=sqlite:////data/gateway.db
RUN install --directory --owner 10001 --group 10001 --mode 0700 /data
COPY --from=package /opt/agui-gateway /opt/agui-gateway
# a gateway.yaml that is mounted here is found
WORKDIR /etc/agui-gateway
USER 10001:10001
VOLUME /data
EXPOSE 8000
# runs end, or are ended after server.drain_seconds (20): give it longer than that (--stop-timeout 30)
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=15s --timeout=5s --start-period=30s --start-interval=1s --retries=3 \
    CMD ["python", "-c", "from http.client import HTTPConnection as C; c = C('127.0.0.1', 8000, timeout=4); c.request('GET', '/readyz'); raise SystemExit(c.getresponse().status != 200)"]
ENTRYPOINT ["agui-gateway"]
CMD ["serve"]
