"""Where the stores of zarr-python are: those that the engine reaches by itself."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

#: Options of fsspec that say nothing about where data is, and whose keys count.
_OF_THE_CLIENT = frozenset(
    {"asynchronous", "skip_instance_cache", "use_listings_cache", "listings_expiry_time", "max_paths", "loop", "batch_size", "project"}
    | {"default_block_size", "default_fill_cache", "default_cache_type", "cache_regions", "version_aware", "max_concurrency", "check_connection"}
    | {"block_size", "access", "consistency", "requests_timeout", "cache_timeout", "max_concurrent", "simple_links", "auto_mkdir"}
)
#: Those of the stores of obstore.
_KEPT = {
    "S3Store": frozenset({"bucket", "skip_signature", "endpoint", "region", "default_region", "virtual_hosted_style_request", "allow_http"}),
    "GCSStore": frozenset({"bucket", "skip_signature"}),
    "AzureStore": frozenset({"container_name", "account_name", "skip_signature"}),
}
_SCHEMES = {"S3Store": "s3", "GCSStore": "gs", "AzureStore": "az"}


class Place(NamedTuple):
    """The URL or path of an array, and how its bucket is reached, as in ``Spec.storage``."""

    url: str
    storage: Mapping[str, Mapping[str, object]] = {}


def place(x: Any) -> Place | None:
    """Where an array of zarr-python is, if the engine can read it there.

    A store that has keys of its own, which no file and no variable of the environment has, is not such a place: a plan holds no secrets. Nor is one
    that is inside another, such as a file of zip.
    """
    if not type(x).__module__.startswith("zarr."):
        return None
    store = getattr(x, "store", None)
    found = _READERS.get(type(store).__name__, _nowhere)(store)
    if found is None:
        return None
    path = getattr(x, "path", "")
    return found._replace(url=f"{found.url.rstrip('/')}/{path}".rstrip("/") if path else found.url)


def _nowhere(store: Any) -> None:
    return None


def _local(store: Any) -> Place | None:
    root = getattr(store, "root", None)
    return None if root is None else Place(os.path.abspath(os.fspath(root)))


def _at(url: str, bucket: str, options: Mapping[str, object]) -> Place:
    kept = {name: value for name, value in options.items() if value not in (None, False)}
    endpoint = str(kept.get("endpoint", ""))
    if endpoint.startswith("http:"):
        kept["allow_http"] = True
    return Place(url, {bucket: kept} if kept else {})


def _fsspec(store: Any) -> Place | None:
    fs = getattr(store.fs, "sync_fs", store.fs)
    protocols = {fs.protocol} if isinstance(fs.protocol, str) else set(fs.protocol)
    given = {k: v for k, v in fs.storage_options.items() if v not in (None, False, {}, "") and k not in _OF_THE_CLIENT}
    path = str(store.path)
    if "file" in protocols:
        return Place(os.path.abspath(path))
    if protocols & {"http", "https"}:
        return None if given.keys() - {"client_kwargs"} or given.get("client_kwargs") else Place(path)
    bucket = path.strip("/").split("/", 1)[0]
    options: dict[str, object] = {}
    if "s3" in protocols:
        client = dict(given.pop("client_kwargs", {}))
        for name, variable in (("key", "AWS_ACCESS_KEY_ID"), ("secret", "AWS_SECRET_ACCESS_KEY"), ("token", "AWS_SESSION_TOKEN")):
            if name in given and os.environ.get(variable) == given[name]:
                del given[name]
        options = {
            "anonymous": bool(given.pop("anon", False)),
            "endpoint": given.pop("endpoint_url", None) or client.pop("endpoint_url", None),
            "region": client.pop("region_name", None),
            "profile": given.pop("profile", None),
        }
        given.update(client)
        scheme = "s3"
    elif "gs" in protocols:
        anonymous = given.get("token") == "anon"
        if given.get("token") in ("anon", "google_default"):
            del given["token"]
        options, scheme = {"anonymous": anonymous, "endpoint": given.pop("endpoint_url", None)}, "gs"
    elif protocols & {"az", "abfs"}:
        options, scheme = {"account": given.pop("account_name", None), "anonymous": bool(given.pop("anon", False))}, "az"
    else:
        return None
    return None if given else _at(f"{scheme}://{path.strip('/')}", f"{scheme}://{bucket}", options)


def _obstore(store: Any) -> Place | None:
    inner = store.store
    kind = type(inner).__name__
    if kind == "LocalStore":
        return None if inner.prefix is None else Place(os.path.abspath(os.fspath(inner.prefix)))
    if kind == "HTTPStore":
        return None if inner.client_options else Place(str(inner.url))
    if kind not in _SCHEMES or getattr(inner, "credential_provider", None) is not None:
        return None
    config = {name: value for name, value in dict(inner.config).items() if value not in (None, "") and not _in_environment(kind, name, value)}
    client = dict(inner.client_options or {})
    if config.keys() - _KEPT[kind] or client.keys() - {"allow_http", "timeout", "connect_timeout", "user_agent"}:
        return None
    bucket = f"{_SCHEMES[kind]}://{config.get('bucket', config.get('container_name'))}"
    style = config.get("virtual_hosted_style_request")
    options = {
        "anonymous": _true(config.get("skip_signature")),
        "endpoint": config.get("endpoint"),
        "region": config.get("region", config.get("default_region")),
        "account": config.get("account_name"),
    }
    found = _at(f"{bucket}/{inner.prefix or ''}".rstrip("/"), bucket, options)
    if style is not None and _true(style):
        found = found._replace(storage={bucket: {**found.storage.get(bucket, {}), "path_style": False}})
    return found


def _in_environment(kind: str, name: str, value: object) -> bool:
    """True for a key that obstore has read where the engine reads it, too."""
    return kind == "S3Store" and name in ("access_key_id", "secret_access_key", "token") and value == os.environ.get(
        {"token": "AWS_SESSION_TOKEN"}.get(name, f"AWS_{name.upper()}")
    )


def _true(value: object) -> bool:
    return str(value).lower() in ("true", "1")


_READERS = {"LocalStore": _local, "FsspecStore": _fsspec, "ObjectStore": _obstore}
