"""The figures as Markdown and as a picture."""

import math
import os
import statistics
import sys

BEGIN, END = "<!-- compare: begin -->", "<!-- compare: end -->"
NAMES = {
    "chunkwise": "Chunkwise",
    "cubed": "Cubed",
    "dask": "Dask",
    "numpy": "NumPy",
    "tensorstore": "TensorStore",
    "zarrs_reencode": "zarrs_tools",
    "rechunker": "rechunker",
    "xarray_beam": "xarray-beam",
}
# Colours that people with colour blindness can tell apart (Okabe and Ito), and a mark for each.
STYLES = {
    "chunkwise": ("#d55e00", "o"),
    "cubed": ("#0072b2", "s"),
    "dask": ("#009e73", "^"),
    "numpy": ("#777777", "D"),
    "tensorstore": ("#cc79a7", "v"),
    "zarrs_reencode": ("#56b4e9", "P"),
    "rechunker": ("#e69f00", "X"),
    "xarray_beam": ("#000000", "*"),
}


def seconds(value):
    if value < 0.0995:
        return f"{value * 1000:.0f} ms"
    return f"{value:.2f} s" if value < 9.995 else f"{value:.1f} s" if value < 99.95 else f"{value:.0f} s"


def size(value):
    return f"{value / 1e9:.2f} GB" if value >= 9.995e8 else f"{value / 1e6:.0f} MB"


def label(line):
    name = line["workload"].replace("_", " ").replace("plan 1e", "plan 10^")
    return name + (" (lz4)" if line["compressed"] else "")


def turns(line):
    """How far Chunkwise was from the limit that was measured in the same turn: the median, with the number of turns."""
    walls = line["peers"].get("chunkwise", {}).get("walls", [])
    # Files of earlier versions have the least limit only.
    ratios = [wall / limit for wall, limit in zip(walls, line["floor"].get("walls", []))]
    return f"{statistics.median(ratios):.1f}× of {len(ratios)}" if ratios else ""


def table(head, rows):
    return ["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *("| " + " | ".join(row) + " |" for row in rows), ""]


def markdown(document, plot, target):
    """The part of the document between the marks. `plot` is linked relative to `target`."""
    options, peers = document["options"], [p for p in NAMES if any(p in line["peers"] for line in document["lines"])]
    others = [p for p in peers if p not in ("chunkwise", "cubed", "dask", "numpy")]
    text = [
        f"{document['processor']}, {options['threads']} threads, inputs of {options['gigabytes']:g} GB in the page cache, {document['date']}."
        f" Median of up to {options['repeat']} whole processes, all peers in turn; a peer that has used {options['slow']:g} s is not run again"
        " (the number of runs is in the second table). Chunkwise has"
        f" `--allowed-mem {options['allowed_mem']}`, Cubed that much for each worker; the others have no limit but"
        " 12 GB. Wall time, and in brackets its ratio to the limit of this machine; bold is the fastest.",
        "",
    ]
    if plot:
        folder = target.resolve().parent if target else os.getcwd()
        text += [f"![Wall time of each peer and limit of the machine]({os.path.relpath(plot.resolve(), folder)})", ""]
    rows = []
    for line in document["lines"]:
        done = {p: s["wall"] for p, s in line["peers"].items() if "wall" in s}
        limit = line["floor"]["wall"] if line["floor"] else None

        def cell(peer):
            state = line["peers"].get(peer)
            if state is None:
                return ""
            if "wall" not in state:
                return state["status"]
            time = f"{seconds(state['wall'])}" + (f" ({state['wall'] / limit:.1f}×)" if limit else "")
            return f"**{time}**" if state["wall"] == min(done.values()) else time

        rest = "<br>".join(f"{NAMES[p]} {cell(p)}" for p in others if p in line["peers"])
        main = [cell(p) for p in peers if p not in others]
        rows.append([label(line), seconds(limit) if limit else "", *main, rest])
    text += table(["workload", "limit", *(NAMES[p] for p in peers if p not in others), "others"], rows)

    text += ["Everything about each: CPU time and memory are those of the whole process tree; bytes are those of system calls.", ""]
    rows = []
    for line in document["lines"]:
        for peer in peers:
            state = line["peers"].get(peer)
            if state is None:
                continue
            if "wall" not in state:
                rows.append([label(line), NAMES[peer], state["status"], "", "", "", "", "", ""])
                continue
            variant = f" ({state['variant']})" if state["variant"] else ""
            error = "" if state["error"] is None else "0" if state["error"] == 0 else f"{state['error']:.0e}"
            spread = (
                f"{seconds(state['wall'])}" if len(state["walls"]) < 2 else f"{seconds(state['wall'])} ≥ {seconds(min(state['walls']))}"
            )
            rows.append(
                [
                    label(line),
                    NAMES[peer] + variant,
                    spread,
                    seconds(state["cpu"]),
                    size(state["peak"]),
                    size(state["read"]),
                    size(state["written"]),
                    error,
                    str(len(state["walls"])),
                ]
            )
    text += table(["workload", "peer", "wall, median ≥ least", "CPU", "peak memory", "read", "written", "error", "runs"], rows)

    parts = [("read", "read and decode"), ("arithmetic", "arithmetic"), ("write", "encode and write")]
    rows = [
        [label(line), *(seconds(line["floor"][key]) if key in line["floor"] else "" for key, _ in parts), seconds(line["floor"]["wall"]), turns(line)]
        for line in document["lines"]
        if line["floor"]
    ]
    text += [
        "The limits and their parts, from the turn where the limit was least. The last column is the median of Chunkwise's times over the limit of the same turn:",
        "",
        *table(["workload", *(name for _, name in parts), "sum", "Chunkwise / limit, turn by turn"], rows),
    ]
    m, threads = document["machine"], options["threads"]
    facts = [
        f"copies of memory {m['copy'] / 1e9:.1f} GB/s",
        f"reading files from the page cache {m['read'] / 1e9:.1f} GB/s",
        f"writing files {m['write'] / 1e9:.1f} GB/s",
        f"blosc-lz4 decoding {m['decode'] / 1e9:.1f} GB/s and encoding {m['encode'] / 1e9:.1f} GB/s (of decoded bytes)",
        f"the chain {m['chain'] / 1e6:.0f} million elements/s",
        f"GEMM {m['gemm'] / 1e9:.0f} GFLOP/s, in one thread {m['gemm 1'] / 1e9:.0f}",
    ]
    text += [f"The machine, on {threads} threads: {', '.join(facts)}.", ""]
    started = ", ".join(
        f"{NAMES.get(p.split()[0], p)}{' distributed' if ' ' in p else ''} {seconds(s)}" for p, s in document["starts"].items()
    )
    text += [f"Every wall time includes starting the process and importing the peer: {started}.", ""]
    text += ["Versions: " + ", ".join(f"{name} {version}" for name, version in document["versions"].items()) + ".", ""]
    return "\n".join(text)


def replace(path, text):
    """Puts the text between the marks of a file, or at its end with marks if it has none."""
    old = path.read_text() if path.exists() else ""
    new = f"{BEGIN}\n{text}{END}"
    if BEGIN in old and END in old:
        new = old[: old.index(BEGIN)] + new + old[old.index(END) + len(END) :]
    elif BEGIN in old or END in old:
        sys.exit(f"{path} has only one of the marks {BEGIN} and {END}")
    else:
        new = f"{old.rstrip()}\n\n{new}\n" if old else new + "\n"
    path.write_text(new)


def plot(document, path):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    lines = [line for line in document["lines"] if any("wall" in s for s in line["peers"].values())]
    fig, axes = plt.subplots(figsize=(10, 1.3 + 0.36 * len(lines)), dpi=100)
    shown = {}
    for y, line in enumerate(lines):
        walls = [s["wall"] for s in line["peers"].values() if "wall" in s]
        limit = line["floor"]["wall"] if line["floor"] else None
        axes.plot([min([*walls, limit or math.inf]), max(walls)], [y, y], color="#dddddd", lw=1.2, zorder=1)
        if limit:
            shown["limit"] = axes.plot([limit, limit], [y - 0.4, y + 0.4], color="black", lw=2.2, zorder=2, label="limit of the machine")[0]
        for peer, state in line["peers"].items():
            if "wall" in state:
                colour, mark = STYLES[peer]
                first = peer == "chunkwise"
                shown[peer] = axes.scatter(
                    state["wall"],
                    y,
                    s=95 if first else 48,
                    color=colour,
                    marker=mark,
                    edgecolors="white",
                    linewidths=0.7,
                    zorder=4 if first else 3,
                    label=NAMES[peer],
                )
    axes.set_xscale("log")
    axes.set_yticks(range(len(lines)), [label(line).replace("10^6", "10⁶").replace("10^7", "10⁷") for line in lines])
    axes.set_ylim(len(lines) - 0.4, -0.6)
    axes.xaxis.set_major_formatter(matplotlib.ticker.FuncFormatter(lambda v, _: f"{v:g} s" if v >= 1 else f"{v * 1000:g} ms"))
    axes.grid(axis="x", which="major", color="#cccccc", lw=0.7)
    axes.grid(axis="x", which="minor", color="#eeeeee", lw=0.5)
    axes.set_axisbelow(True)
    axes.set_xlabel("wall time of the whole process, logarithmic; left is faster")
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(axis="y", length=0)
    order = [k for k in ["limit", *NAMES] if k in shown]
    fig.legend([shown[k] for k in order], [shown[k].get_label() for k in order], loc="upper center", ncols=5, frameon=False)
    fig.tight_layout(rect=(0, 0, 1, 1 - 0.6 / fig.get_figheight()))
    fig.savefig(path)
