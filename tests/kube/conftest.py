"""The mark `slow`: CI leaves these tests out, which `./yard fleet-test kube` runs (run.sh)."""


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: run by `./yard fleet-test kube` only")
