"""The audit log of an API server: every write that was asked of it, also of those that it refused.

The server writes an entry at the end of the request: a client may have the answer a moment before.
"""

import json
from typing import NamedTuple

POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata", "verbs": ["create", "update", "patch", "delete", "deletecollection"]},
              {"level": "None"}],
}


class Write(NamedTuple):
    user: str
    verb: str
    resource: str  # as in "nodes" or "nodes/status"
    name: str
    status: int
    uri: str


def read_write(entry):
    what = entry.get("objectRef", {})
    parts = [what.get("resource", ""), what.get("subresource", "")]
    return Write(user=entry["user"].get("username", ""), verb=entry["verb"],
                 resource="/".join(part for part in parts if part), name=what.get("name", ""),
                 status=entry.get("responseStatus", {}).get("code", 0), uri=entry["requestURI"])


class AuditLog:
    def __init__(self, path):
        self._path = path

    def writes(self, user=None, since=0):
        """All of them in order; of one user, if one is named. `since` is how many were there before, of
        all users: len(log.writes())."""
        try:
            lines = self._path.read_text(encoding="utf-8").split("\n")[:-1]  # the last may be incomplete
        except FileNotFoundError:
            lines = []
        found = [read_write(json.loads(line)) for line in lines[since:]]
        return [one for one in found if user in (None, one.user)]
