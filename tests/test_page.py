"""What is served to browsers beside the API: the built page, the sample shop, the widget; and what is where none is."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from gateway.page import WebPage, page_is_built, read_page
from tests.running_gateway import GatewayClient, agent, local_gateway, scripted

ECHO = agent("echo", scripted([{"text": "{{user}}"}]))
INDEX = '<!doctype html>\n<link rel="icon" href="./favicon.svg"><script type="module" src="./assets/index-AbCd1234.js">'
SCRIPT = "export const numbers = [" + "1, " * 500 + "];\n"
WIDGET = "customElements.define('agui-chat', class extends HTMLElement {});\n" * 20
PLAIN = {"accept-encoding": "identity"}


def write_page(directory: Path) -> Path:
    """A page as `npm run build` leaves one."""
    files = {
        "index.html": INDEX,
        "shop.html": "<!doctype html>\n<script type=module src=./widget.js>",
        "favicon.svg": "<svg xmlns='http://www.w3.org/2000/svg'/>",
        "widget.js": WIDGET,
        "texts/de.json": "{}",
        "widget/code_colours.js": SCRIPT,
        "assets/index-AbCd1234.js": SCRIPT,
        "assets/index-Ef_-5678.css": "body {}",
        ".stamp": "",
        "notes.psd": "",
    }
    page = directory / "page_files"
    for name, text in files.items():
        path = page / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    for name in ("widget.js", "assets/index-AbCd1234.js"):
        (page / f"{name}.gz").write_bytes(gzip.compress(files[name].encode()))
        (page / f"{name}.br").write_bytes(b"stands for Brotli")
    return page


@pytest.fixture
def page(tmp_path: Path) -> WebPage:
    return read_page(write_page(tmp_path))


async def test_documents_are_served_under_a_strict_policy_and_always_asked_for_anew(
    page: WebPage, tmp_path: Path
) -> None:
    async with local_gateway(tmp_path, [ECHO], page=page) as gateway:
        answers = {path: await gateway.client.http.get(path) for path in ("/", "/shop", "/shop.html")}

    assert answers["/"].text == INDEX
    assert answers["/shop"].text == answers["/shop.html"].text != INDEX
    for answer in answers.values():
        policy = dict(part.strip().partition(" ")[::2] for part in answer.headers["content-security-policy"].split(";"))
        assert {name for name, value in policy.items() if value == "'none'"} == {
            "default-src", "font-src", "base-uri", "form-action", "frame-ancestors"
        }  # fmt: skip
        assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
        assert policy["img-src"] == "'self' data: blob:"
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert answer.headers["cache-control"] == "no-cache"
        assert answer.headers["cross-origin-opener-policy"] == "same-origin"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["x-content-type-options"] == "nosniff"


async def test_assets_are_kept_for_good_and_have_their_types(page: WebPage, tmp_path: Path) -> None:
    async with local_gateway(tmp_path, [ECHO], page=page) as gateway:
        script = await gateway.client.http.get("/assets/index-AbCd1234.js", headers=PLAIN)
        style = await gateway.client.http.get("/assets/index-Ef_-5678.css")
        icon = await gateway.client.http.get("/favicon.svg")

    assert (script.text, style.text) == (SCRIPT, "body {}")
    for answer in (script, style):
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert script.headers["content-type"] == "text/javascript; charset=utf-8"
    assert style.headers["content-type"] == "text/css; charset=utf-8"
    assert icon.headers["content-type"] == "image/svg+xml"
    assert "immutable" not in icon.headers["cache-control"]


@pytest.mark.parametrize("origins", [[], ["https://app.example"]])
async def test_the_widget_is_for_every_origin(page: WebPage, tmp_path: Path, origins: list[str]) -> None:
    """Also for one that is configured: two `access-control-allow-origin` would be an error to a browser."""
    async with local_gateway(tmp_path, [ECHO], page=page, server={"cors_origins": origins}) as gateway:
        for origin in ("https://app.example", "https://stranger.example"):
            headers = {"origin": origin, "sec-fetch-site": "cross-site", "sec-fetch-mode": "cors"}
            for path in ("/widget.js", "/texts/de.json", "/widget/code_colours.js"):
                answer = await gateway.client.http.get(path, headers=headers)
                assert answer.status_code == 200
                assert answer.headers.get_list("access-control-allow-origin") == ["*"]
                assert answer.headers["cross-origin-resource-policy"] == "cross-origin"
                assert "origin" not in answer.headers.get("vary", "").lower()
                assert re.search(r"max-age=\d{1,3},", answer.headers["cache-control"])


@pytest.mark.parametrize(
    ("accepted", "encoding"),
    [
        ("gzip, deflate, br, zstd", "br"),
        ("gzip, deflate", "gzip"),
        ("br;q=0, gzip;q=0.5", "gzip"),
        ("gzip; q=0.00", None),
        ("identity", None),
        ("", None),
    ],
)
async def test_the_best_encoding_that_a_client_takes_is_sent(
    page: WebPage, tmp_path: Path, accepted: str, encoding: str | None
) -> None:
    async with local_gateway(tmp_path, [ECHO], page=page) as gateway:
        request = gateway.client.http.build_request("GET", "/widget.js", headers={"accept-encoding": accepted})
        answer = await gateway.client.http.send(request, stream=True)
        body = b"".join([part async for part in answer.aiter_raw()])
        await answer.aclose()

    plain = {"br": lambda _: WIDGET.encode(), "gzip": gzip.decompress, "identity": bytes}
    assert answer.headers.get("content-encoding") == encoding
    assert len(body) == int(answer.headers["content-length"])
    assert plain[encoding or "identity"](body) == WIDGET.encode()
    assert (body == b"stands for Brotli") == (encoding == "br")
    assert answer.headers["vary"] == "Accept-Encoding"


@pytest.mark.parametrize("path", ["/", "/shop", "/widget.js", "/assets/index-AbCd1234.js", "/favicon.svg"])
async def test_what_a_browser_has_is_not_sent_again(page: WebPage, tmp_path: Path, path: str) -> None:
    async with local_gateway(tmp_path, [ECHO], page=page) as gateway:
        http = gateway.client.http
        first = await http.get(path, headers=PLAIN)
        tag = first.headers["etag"]
        again = [
            await http.get(path, headers={**PLAIN, "if-none-match": known})
            for known in (tag, f"W/{tag}", f'"other", {tag}', "*")
        ]
        changed = await http.get(path, headers={**PLAIN, "if-none-match": '"other"'})
        head = await http.head(path, headers=PLAIN)
        posted = await http.post(path)

    for answer in again:
        assert (answer.status_code, answer.content) == (304, b"")
        assert answer.headers["etag"] == tag
        assert answer.headers["cache-control"] == first.headers["cache-control"]
        assert answer.headers.get("content-security-policy") == first.headers.get("content-security-policy")
        assert "content-type" not in answer.headers
    assert (changed.status_code, changed.content) == (200, first.content)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == str(len(first.content))
    assert posted.status_code == 405


async def test_each_encoding_has_a_tag_of_its_own(page: WebPage, tmp_path: Path) -> None:
    async with local_gateway(tmp_path, [ECHO], page=page) as gateway:
        tags = {
            (await gateway.client.http.head("/widget.js", headers={"accept-encoding": name})).headers["etag"]
            for name in ("identity", "gzip", "br")
        }

    assert len(tags) == 3


@pytest.mark.parametrize(
    "path",
    [
        "/assets/",
        "/assets/unknown.js",
        "/assets/../index.html",
        "/assets/..%2findex.html",
        "/assets/%2e%2e/%2e%2e/application.py",
        "/assets/index-AbCd1234.js.gz",
        "/assets//etc/passwd",
        "/index.html",
        "/.stamp",
        "/notes.psd",
        "/page_files/index.html",
    ],
)
async def test_nothing_but_the_page_s_own_files_is_there(page: WebPage, tmp_path: Path, path: str) -> None:
    async with local_gateway(tmp_path, [ECHO], page=page) as gateway:
        assert await raw_status(gateway.client, path) == 404


async def raw_status(client: GatewayClient, path: str) -> int:
    """Of a path that no client library has tidied up."""
    request = client.http.build_request("GET", "/")
    request.url = request.url.copy_with(raw_path=path.encode())
    answer = await client.http.send(request)
    assert answer.headers["content-type"] == "application/problem+json"
    return answer.status_code


async def test_the_page_is_open_where_keys_are_needed(page: WebPage, tmp_path: Path) -> None:
    keys = {"api_keys": [{"name": "alice", "key": "k" * 16}]}
    paths = ["/", "/shop", "/widget.js", "/assets/index-AbCd1234.js", "/favicon.svg", "/favicon.ico", "/agents"]
    async with local_gateway(tmp_path, [ECHO], page=page, server=keys) as gateway:
        statuses = [(await gateway.client.http.get(path)).status_code for path in paths]

    assert statuses == [200, 200, 200, 200, 200, 204, 401]


async def test_a_gateway_without_a_built_page_works_and_says_what_is_missing(tmp_path: Path) -> None:
    async with local_gateway(tmp_path, [ECHO], page=read_page(tmp_path / "page_files")) as gateway:
        pages = [await gateway.client.http.get(path) for path in ("/", "/shop")]
        widget = await gateway.client.http.get("/widget.js")
        agents = await gateway.client.get("/agents")
        docs = await gateway.client.http.get("/docs")

    for page in pages:
        assert page.status_code == 503
        assert page.headers["content-type"].startswith("text/html")
        assert "make page" in page.text
        assert "content-security-policy" in page.headers
    assert (widget.status_code, widget.json()["code"]) == (404, "page_not_built")
    assert "make page" in widget.json()["detail"]
    assert agents["agents"]
    assert docs.status_code == 200


# --- the page that was really built: `make test` builds it before


@pytest.mark.skipif(not page_is_built(), reason="the page is not built here; 'make page' builds it")
async def test_the_built_page_has_nothing_inline_and_asks_for_nothing_that_is_not_served(tmp_path: Path) -> None:
    async with local_gateway(tmp_path, [ECHO]) as gateway:
        for path in ("/", "/shop"):
            html = (await gateway.client.http.get(path)).text
            assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)|javascript:", html)
            for name in re.findall(r'(?:<script[^>]*\ssrc|<link[^>]*\shref)="([^"]+)"', html):
                assert name.startswith("./"), (
                    f"{name} would not be found behind a proxy that serves the gateway below /"
                )
                assert (await gateway.client.http.get(name.removeprefix("."))).status_code == 200


LATER = ("code_colours", "file_reading", "medium_bytes", "schema_check")


@pytest.mark.skipif(not page_is_built(), reason="the page is not built here; 'make page' builds it")
async def test_the_built_widget_is_one_file_and_what_it_asks_for_later_lies_beside_it(tmp_path: Path) -> None:
    async with local_gateway(tmp_path, [ECHO]) as gateway:
        widget = await gateway.client.http.get("/widget.js")
        later = re.findall(r"""\bimport\(["'`]\.(/widget/\w+\.js)["'`]\)""", widget.text)
        answers = [await gateway.client.http.get(path) for path in later]

    assert set(later) == {f"/widget/{name}.js" for name in LATER}
    assert {answer.status_code for answer in (widget, *answers)} == {200}
    at_once = re.sub(r"\bimport\([^()]*\)", "", widget.text)
    for script in (at_once, *(answer.text for answer in answers)):
        assert not re.search(r"""\bimport\s*[("'`{*]|\bfrom\s*["'`]|\beval\(|new Function\b""", script)


@pytest.mark.skipif(not page_is_built(), reason="the page is not built here; 'make page' builds it")
async def test_the_licenses_of_what_the_bundles_hold_go_with_them(tmp_path: Path) -> None:
    async with local_gateway(tmp_path, [ECHO]) as gateway:
        answers = [await gateway.client.http.get(path) for path in ("/licenses.md", "/widget-licenses.md")]

    for answer in answers:
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        assert "## preact - " in answer.text
        assert "Permission is hereby granted" in answer.text
