#!/usr/bin/env python3
"""The bill of materials of the program, SPDX 2.3 in JSON: what is linked into it from Debian's archives
and headers, by the versions that dpkg knows, and what is embedded from npm, by web/package-lock.json.

    sbom.py VERSION >gpuyard.spdx.json
    sbom.py --notices >NOTICES      the licences of what is linked, in the words of their packages

The time in it is SOURCE_DATE_EPOCH's, its name in the world is made of its content: twice the same.
"""

import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# Debian's package, the name people know, and its licence. `libstdc++` is named by its compiler.
LINKED = [
    ("libboost*-dev", "Boost", "BSL-1.0"),
    ("libfmt-dev", "fmt", "MIT"),
    ("libspdlog-dev", "spdlog", "MIT"),
    ("libtomlplusplus-dev", "toml++", "MIT"),
    ("libcli11-dev", "CLI11", "BSD-3-Clause"),
    ("zlib1g-dev", "zlib", "Zlib"),
    ("libsqlite3-dev", "SQLite", "blessing"),
    ("libssl-dev", "OpenSSL", "Apache-2.0"),
    ("libnghttp2-dev", "nghttp2", "MIT"),
    ("libstdc++-*-dev", "libstdc++", "GPL-3.0-or-later WITH GCC-exception-3.1"),
]
# npm's packages that reach the pages; the others only build them.
EMBEDDED = {"swagger-ui-dist": "Apache-2.0", "preact": "MIT", "htm": "Apache-2.0", "uplot": "MIT"}


def installed(pattern: str) -> tuple[str, str]:
    """The package that matches and its version; of several the newest."""
    lines = subprocess.run(["dpkg-query", "-W", "-f=${db:Status-Status} ${Package} ${Version}\n", pattern],
                           stdout=subprocess.PIPE, text=True, check=False).stdout.splitlines()
    found = [line.split()[1:] for line in lines if line.startswith("installed ")]
    # Boost's many packages are of one version; the one with headers is libboost1.81-dev.
    found = [(name, version) for name, version in found if pattern != "libboost*-dev" or name[8:].count("-") == 1]
    if not found:
        sys.exit(f"sbom: {pattern} is not installed here, so its version is not known")
    return max(found, key=lambda one: [int(part) if part.isdigit() else 0 for part in
                                       one[1].replace("-", ".").split(".")])


def package(name: str, version: str, licence: str, url: str) -> dict:
    return {"SPDXID": "SPDXRef-" + "".join(c if c.isalnum() or c in ".-" else "-" for c in name),
            "name": name, "versionInfo": version, "supplier": "NOASSERTION",
            "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
            "licenseConcluded": licence, "licenseDeclared": licence, "copyrightText": "NOASSERTION",
            "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                              "referenceLocator": url}]}


def notices() -> None:
    print("gpuyard holds code of these libraries. Their copyrights and licences follow, as Debian has them.")
    for pattern, name, _ in LINKED:
        deb, version = installed(pattern)
        text = Path(f"/usr/share/doc/{deb}/copyright").read_text(encoding="utf-8")
        print(f"\n{'=' * 100}\n{name} ({deb} {version})\n{'=' * 100}\n\n{text.rstrip()}")


def main() -> None:
    version = sys.argv[1]
    if version == "--notices":
        notices()
        return
    own = package("gpuyard", version, "Apache-2.0", f"pkg:generic/gpuyard@{version}")
    own["supplier"] = "Organization: The gpuyard authors"
    parts = []
    for pattern, name, licence in LINKED:
        deb, its_version = installed(pattern)
        part = package(name, its_version, licence, f"pkg:deb/debian/{deb}@{its_version}")
        part["supplier"] = "Organization: Debian"
        parts.append(part)
    locked = json.loads((ROOT / "web/package-lock.json").read_text(encoding="utf-8"))["packages"]
    for name, licence in EMBEDDED.items():
        its_version = locked[f"node_modules/{name}"]["version"]
        part = package(name, its_version, licence, f"pkg:npm/{name}@{its_version}")
        part["supplier"] = "Organization: npm"
        parts.append(part)
    content = hashlib.sha256(json.dumps([own, *parts]).encode()).hexdigest()
    made = time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", time.time())))
    document = {
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"gpuyard-{version}", "documentNamespace": f"https://spdx.org/spdxdocs/gpuyard-{content}",
        "creationInfo": {"created": time.strftime("%Y-%m-%dT%H:%M:%SZ", made),
                         "creators": ["Tool: gpuyard-sbom", "Organization: The gpuyard authors"]},
        "packages": [own, *parts],
        "relationships": [
            {"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": own["SPDXID"]},
            *({"spdxElementId": own["SPDXID"], "relationshipType": "CONTAINS", "relatedSpdxElement": part["SPDXID"]}
              for part in parts)],
    }
    json.dump(document, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
