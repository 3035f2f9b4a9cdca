"""`python -m tests.benchmarks [--full] [--only NAME]`: the gateway beside a bare server, as ratios.

Processor time is what the server's own process used, all of its threads together, on a core of its own where there are
two; absolute numbers are the machine's, ratios carry over. Of tools' schemas the ceiling stands in the bare server's
place. The quick form takes about two minutes,
`--full` about twenty; the model providers are measured in the latter, or by name (`--only providers`: five minutes).
So are stores: a cluster beside the SQLite file (`--only stores`; with `--full` it has a million threads), and several
gateways on one cluster (`--only hops`).
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
from pathlib import Path

from tests.benchmarks import hops, providers, renderers, schemas, stores
from tests.benchmarks.measurements import Row
from tests.benchmarks.scenarios import FULL, QUICK, Benchmarks, Servers, running_servers
from tests.benchmarks.server_process import raise_file_limit, split_cores
from tests.opensearch.installation import NoNodeError

_FILES = 8192


def main() -> int:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("--full", action="store_true", help="more of everything, and 1,000 streams at once")
    parser.add_argument(
        "--only", default="", metavar="NAME", help="text, tool, ..., renderers, schemas, providers, stores, hops"
    )
    arguments = parser.parse_args()
    if not sys.platform.startswith("linux"):
        print("the benchmarks read processor time and memory from Linux's /proc", file=sys.stderr)
        return 1
    raise_file_limit(_FILES)
    asyncio.run(_measure(full=arguments.full, only=arguments.only))
    return 0


async def _measure(*, full: bool, only: str) -> None:
    cores = split_cores()
    if cores.others is not None:
        os.sched_setaffinity(0, cores.others)
    print(f"{'':72} {'bare':>8} {'gateway':>8} {'':8} {'result':>10}  to reach", flush=True)
    if only in "schemas":
        await schemas.run(_print_row)
    if only in "renderers":
        renderers.run(_print_row)
    with tempfile.TemporaryDirectory() as directory:
        async with running_servers(Path(directory), cores) as servers:
            await Benchmarks(servers, FULL if full else QUICK, _print_row).run(only)
            if (full or only) and any(only in each for each in ("stores", "hops")):
                await _measure_clusters(servers, only, full=full)
        if (full or only) and only in "providers":
            plan = providers.FULL if full else providers.QUICK
            await providers.ProviderBenchmarks(Path(directory), cores, plan, _print_row).run()


async def _measure_clusters(servers: Servers, only: str, *, full: bool) -> None:
    try:
        async with stores.a_cluster(servers.directory) as url:
            if only in "stores":
                await stores.StoreBenchmarks(servers, url, stores.FULL if full else stores.QUICK, _print_row).run()
            if only in "hops":
                await hops.HopBenchmarks(servers, url, hops.FULL if full else hops.QUICK, _print_row).run()
    except NoNodeError as error:
        print(f"what needs a cluster is not measured: {error}", file=sys.stderr)


def _print_row(row: Row) -> None:
    target = row.target or ""
    print(f"{row.name:72} {row.bare:8.2f} {row.gateway:8.2f} {row.unit:8} {row.result:>10}  {target}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
