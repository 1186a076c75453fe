"""A library's source, as Debian has it: fetched, compared with its hash, unpacked.

fetch_library.py ADDRESS SHA256 FOLDER     FOLDER/NAME-VERSION/ as the archive names it
"""

from __future__ import annotations

import hashlib
import io
import sys
import tarfile
import urllib.request


def main() -> None:
    address, sha256, folder = sys.argv[1:]
    with urllib.request.urlopen(address, timeout=120) as answer:
        data = answer.read()
    found = hashlib.sha256(data).hexdigest()
    if found != sha256:
        sys.exit(f"fetch_library: {address} has the sha256 {found}, not {sha256}")
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        archive.extractall(folder)


if __name__ == "__main__":
    main()
