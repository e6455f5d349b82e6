"""Requests to an API server of Kubernetes, as the owner of one token. Thread: any; each request has a
connection of its own.

    api = Api("https://127.0.0.1:6443", ca_pem, token)
    node = api.get("/api/v1/nodes/n1")
    api.create("/api/v1/namespaces/default/pods", pod)
    api.patch("/api/v1/nodes/n1/status", {"status": {"conditions": [condition]}})  # a strategic merge
    api.request("DELETE", "/api/v1/nodes/n1").status  # of any answer; the others refuse a failure
"""

import http.client
import json
import ssl
from urllib.parse import urlsplit

from program import PATIENCE, Answer

PATCHES = {"strategic": "application/strategic-merge-patch+json", "merge": "application/merge-patch+json",
           "json": "application/json-patch+json", "apply": "application/apply-patch+yaml"}


class Refused(AssertionError):
    """An answer of 300 or above: its `status`, and the `reason` and `message` of Kubernetes' Status."""

    def __init__(self, request, answer):
        self.status = answer.status
        try:
            body = answer.json()
        except ValueError:
            body = {}
        self.reason = body.get("reason")
        self.message = body.get("message", answer.text)
        super().__init__(f"{request}: {self.status} {self.reason}: {self.message}")


class Api:
    def __init__(self, url, ca_pem, token):
        self.url = url
        self.ca_pem = ca_pem
        self.token = token
        self._server = urlsplit(url)
        self.tls = ssl.create_default_context(cadata=ca_pem)

    def as_owner_of(self, token):
        return Api(self.url, self.ca_pem, token)

    def request(self, method, path, body=None, kind="application/json", timeout=PATIENCE):
        """Returns the Answer. Raises OSError or http.client.HTTPException where there is none."""
        connection = http.client.HTTPSConnection(self._server.hostname, self._server.port,
                                                 timeout=timeout, context=self.tls)
        try:
            connection.request(method, path, body=None if body is None else json.dumps(body), headers={
                "Authorization": f"Bearer {self.token}", "Accept": "application/json", "Content-Type": kind})
            return Answer(connection.getresponse())
        finally:
            connection.close()

    def get(self, path):
        return self._do("GET", path)

    def create(self, path, body):
        return self._do("POST", path, body)

    def put(self, path, body):
        return self._do("PUT", path, body)

    def patch(self, path, body, how="strategic"):
        return self._do("PATCH", path, body, PATCHES[how])

    def delete(self, path):
        """At once: no kubelet says that a Pod's containers have ended."""
        return self._do("DELETE", path, {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0})

    def _do(self, method, path, *more):
        answer = self.request(method, path, *more)
        if answer.status >= 300:
            raise Refused(f"{method} {path}", answer)
        return answer.json()

    def is_ready(self):
        try:
            return self.request("GET", "/readyz", timeout=2).status == 200
        except (OSError, http.client.HTTPException):
            return False
