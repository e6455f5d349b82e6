"""The API's description, and the page that shows it, in a real browser."""

import jsonschema
import proofs
import pytest
from chromium import Chromium

PROOF = "API page in Chromium"
SKIPPED = "skipped (no npm, or its registry does not answer)"


def page_or_skip(yard):
    answer = yard.get("/docs")
    if answer.status == 503:
        assert "openapi.json" in answer.text and "built without" in answer.text
        proofs.record(PROOF, SKIPPED)
        pytest.skip("built without the files of the API page")
    return answer


def test_docs_page_lists_routes_and_contacts_only_daemon(shared, tmp_path, record_property):
    record_property("contract", "E12")
    yard = shared("--simulate", "8")
    page_or_skip(yard)
    origin = f"http://127.0.0.1:{yard.port}"
    with Chromium(tmp_path) as browser:
        page = browser.open(f"{origin}/docs")
        page.wait_for("document.querySelectorAll('.opblock').length > 0")
        shown = page.text().replace("\u200b", "")  # it lets long paths break
        described = yard.get("/openapi.json").json()
        for path, operations in described["paths"].items():
            assert path in shown
            for operation in operations.values():
                assert operation["summary"].split(",")[0] in shown
        assert "GPU" in shown and "Observability" in shown

        # A route unfolded shows its example, and its answer when it is tried.
        page.evaluate("document.querySelector('[id$=api_gpu_devices] button').click()")
        page.wait_for("document.querySelector('.opblock .try-out__btn')")
        page.wait_for("document.body.innerText.includes('total_memory_mb')")
        page.evaluate("document.querySelector('.opblock .try-out__btn').click()")
        page.wait_for("document.querySelector('.opblock .execute')")
        page.evaluate("document.querySelector('.opblock .execute').click()")
        page.wait_for("document.querySelector('.live-responses-table')")
        assert f"{origin}/api/gpu/devices" in page.requests

        strangers = [url for url in page.requests
                     if not url.startswith((origin + "/", "data:", "blob:"))]
        assert strangers == []
        assert page.complaints == []
    proofs.record(PROOF, "ran")


def test_responses_match_schemas_and_example_keys(daemon, tmp_path, record_property):
    record_property("contract", "E12")
    (tmp_path / "control.toml").write_text("[control]\nenabled = true\n")
    yard = daemon("--simulate", "2", "--config", str(tmp_path / "control.toml"))
    document = yard.get("/openapi.json").json()
    window = yard.get("/api/gpu/energy/windows", unix=True, method="POST", body={}).json()["id"]
    change = yard.get("/api/gpu/manage/0/power-limit", unix=True, method="PUT",
                      body={"power_limit_mw": 300000}).json()["changes"][0]
    lease = yard.get("/api/gpu/leases", unix=True, method="POST",
                     body={"binding": "detached", "ttl_s": 60}).json()["lease"]["id"]
    assert 200 in [yard.get("/api/gpu/slurm/jobs/17", unix=True, method="PUT",
                            body={"uid": 1000, "minors": [minor]}).status for minor in (0, 1)]
    real = {"/api/gpu/slurm/jobs/{job}": "/api/gpu/slurm/jobs/17",
            "/api/gpu/leases/{lease}": f"/api/gpu/leases/{lease}",
            "/api/gpu/devices/{id}/history": "/api/gpu/devices/0/history?metric=power_draw",
            "/api/gpu/manage/operations/{operation}":
                f"/api/gpu/manage/operations/{change['operation']}",
            "/api/gpu/energy/windows/{window}": f"/api/gpu/energy/windows/{window}"}
    compared = 0
    for path, operations in document["paths"].items():
        if "get" not in operations or "{alert}" in path:  # nothing has fired yet
            continue
        content = operations["get"]["responses"]["200"]["content"].get("application/json")
        if not content or "example" not in content:
            continue
        answer = yard.get(real.get(path, path.replace("{id}", "0")), unix=True).json()
        jsonschema.validate(answer, content["schema"] | {"components": document["components"]},
                            cls=jsonschema.Draft202012Validator)
        assert list(answer) == list(content["example"]), path
        compared += 1
    assert compared >= 6
