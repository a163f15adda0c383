"""The web address where a person opens a pull request for a pushed branch."""

import re
from urllib.parse import quote, urlsplit

_SCP_FORM = re.compile(r"(?:[^@/\s]+@)?([A-Za-z0-9.-]+):(?!/)([^\s]+)")


def compare_url(remote_url: str, base: str, branch: str, web_url: str | None = None) -> str | None:
    """For GitHub, GitLab or the given page of the repository; None if the host's form is not known.

    `web_url` comes first. A host with `gitlab` in its name gets GitLab's form, any other one GitHub's, but
    only github.com, and hosts that are named so, are known without `web_url`.
    """
    page = web_url.rstrip("/") if web_url else _page_of(remote_url)
    if page is None:
        return None
    host = (urlsplit(page).hostname or "").lower()
    if "gitlab" in host:
        source, target = quote(branch, safe=""), quote(base, safe="")
        query = f"merge_request%5Bsource_branch%5D={source}&merge_request%5Btarget_branch%5D={target}"
        return f"{page}/-/merge_requests/new?{query}"
    return f"{page}/compare/{quote(base, safe='/')}...{quote(branch, safe='/')}?expand=1"


def _page_of(remote_url: str) -> str | None:
    host, path = _host_and_path(remote_url.strip())
    name = path.strip("/").removesuffix(".git")
    if not name or not re.fullmatch(r"[\w.~/-]+", name) or "/" not in name:
        return None
    is_known = any(part in {"github", "gitlab"} for part in host.lower().split("."))
    return f"https://{host.lower()}/{name}" if is_known else None


def _host_and_path(url: str) -> tuple[str, str]:
    if "://" not in url:
        match = _SCP_FORM.fullmatch(url)
        return (match[1], match[2]) if match else ("", "")
    try:
        parts = urlsplit(url)
        number = parts.port
    except ValueError:
        return "", ""
    if parts.scheme not in {"http", "https", "ssh", "git"}:
        return "", ""
    # The port of an ssh address is not that of the page.
    port = f":{number}" if number and parts.scheme in {"http", "https"} else ""
    return f"{parts.hostname or ''}{port}", parts.path
