"""Tables inside a page, between two comments that name them."""


def put(page, name, text):
    """Replaces what the page has between `<!-- name: begin -->` and `<!-- name: end -->`."""
    start, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, rest = page.read_text().split(start)
    page.write_text(before + start + "\n" + text.rstrip("\n") + "\n" + end + rest.split(end)[1])
